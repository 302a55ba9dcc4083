//! Open connections: how many there may be, and who gives one up.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use foldhash::quality::RandomState;
use futures_util::task::AtomicWaker;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::budget::Prefix;
use crate::log_limiter::LogLimits;
use crate::metrics::Metrics;

/// All open connections, by the client's prefix.
///
/// Below a water mark everybody has as many as they like. Above it, the prefix
/// that holds the most gives up those that have been idle for longest, as long
/// as it holds more than its share; at the limit, even if it holds less.
#[derive(Debug)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    limit: usize,
    open: Mutex<Open>,
    metrics: Arc<Metrics>,
    log_limits: LogLimits,
}

#[derive(Debug, Default)]
struct Open {
    total: usize,
    prefixes: HashMap<Prefix, Vec<Arc<State>>, RandomState>,
    /// Prefixes by how many connections they hold.
    by_count: BTreeSet<(usize, Prefix)>,
}

/// The place of one connection, which ends with it.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    prefix: Prefix,
    state: Arc<State>,
    _permit: OwnedSemaphorePermit,
}

/// What others may see and do of a connection.
#[derive(Debug)]
struct State {
    /// When the connection's task last ran, as [`now`] counts. Relaxed: who
    /// compares ages minds no millisecond.
    active: AtomicU64,
    given_up: AtomicBool,
    /// Where it stands among those of its prefix; read and written under the
    /// lock alone.
    index: AtomicUsize,
    task: AtomicWaker,
}

impl Connections {
    /// At most `limit`, and one more for each of `sockets`, which takes a
    /// permit before it accepts and keeps it while nobody comes.
    pub(crate) fn new(limit: usize, sockets: usize, metrics: Arc<Metrics>) -> Self {
        let permits = limit.saturating_add(sockets).min(Semaphore::MAX_PERMITS);
        Self {
            permits: Arc::new(Semaphore::new(permits)),
            limit,
            open: Mutex::default(),
            metrics,
            log_limits: LogLimits::default(),
        }
    }

    /// Waits until there may be one more. None if the server ends.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned();
            match timeout(FULL_WAIT, permit).await {
                Ok(permit) => return permit.ok(),
                // Whoever waits in the kernel's queue pushes nobody out.
                Err(_) => self.make_room(),
            }
        }
    }

    fn make_room(&self) {
        let victims = {
            let mut open = self.lock();
            let crowd = open.by_count.last().map(|(_, crowd)| *crowd);
            crowd.map(|crowd| (crowd, open.longest_idle(crowd, MIN_IDLE)))
        };
        if let Some((crowd, victims)) = victims.filter(|(_, victims)| !victims.is_empty()) {
            self.give_up(crowd, &victims);
        }
    }

    /// Takes a new connection in, and makes others give up theirs if there are
    /// too many.
    pub(crate) fn enter(self: &Arc<Self>, prefix: Prefix, permit: OwnedSemaphorePermit) -> Place {
        let state = Arc::new(State {
            active: AtomicU64::new(now()),
            given_up: AtomicBool::new(false),
            index: AtomicUsize::new(0),
            task: AtomicWaker::new(),
        });
        let victims = {
            let mut open = self.lock();
            let victims = self.victims(&mut open, prefix);
            open.add(prefix, Arc::clone(&state));
            victims
        };
        if let Some((crowd, victims)) = victims {
            self.give_up(crowd, &victims);
        }
        Place {
            connections: Arc::clone(self),
            prefix,
            state,
            _permit: permit,
        }
    }

    fn give_up(&self, crowd: Prefix, victims: &[Arc<State>]) {
        for victim in victims {
            victim.given_up.store(true, Ordering::Release);
            victim.task.wake();
        }
        self.metrics.connections_given_up(victims.len());
        self.log_limits.given_up(crowd, self.limit);
    }

    /// Takes out who makes room for a newcomer of `prefix`.
    fn victims(&self, open: &mut Open, prefix: Prefix) -> Option<(Prefix, Vec<Arc<State>>)> {
        let mark = self.limit - self.limit / SHARES;
        if open.total < mark {
            return None;
        }
        let (count, crowd) = *open.by_count.last()?;
        if count <= self.limit / SHARES && open.total < self.limit {
            return None;
        }
        // A prefix does not push out its own connections while they are at
        // work; another that holds fewer does.
        let held = open.prefixes.get(&prefix).map_or(0, Vec::len);
        let least_idle = if count > held + 1 { 0 } else { MIN_IDLE };
        let victims = open.longest_idle(crowd, least_idle);
        (!victims.is_empty()).then_some((crowd, victims))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn add(&mut self, prefix: Prefix, state: Arc<State>) {
        let held = self.prefixes.entry(prefix).or_default();
        state.index.store(held.len(), Ordering::Relaxed);
        held.push(state);
        let count = held.len();
        self.total += 1;
        self.recount(prefix, count - 1, count);
    }

    fn remove(&mut self, prefix: Prefix, state: &Arc<State>) {
        let Some(held) = self.prefixes.get_mut(&prefix) else {
            return;
        };
        let before = held.len();
        let index = state.index.load(Ordering::Relaxed);
        // Connections that were given up were taken out then.
        if !held
            .get(index)
            .is_some_and(|other| Arc::ptr_eq(other, state))
        {
            return;
        }
        held.swap_remove(index);
        if let Some(moved) = held.get(index) {
            moved.index.store(index, Ordering::Relaxed);
        }
        self.total -= 1;
        self.recount(prefix, before, before - 1);
    }

    /// Takes out those of a prefix that have been idle for longest, at least
    /// `least_idle` milliseconds: several at once, since it looks at them all.
    fn longest_idle(&mut self, prefix: Prefix, least_idle: u64) -> Vec<Arc<State>> {
        let Some(held) = self.prefixes.get_mut(&prefix) else {
            return Vec::new();
        };
        let before = held.len();
        let wanted = (before / AT_ONCE).max(1).min(before);
        held.select_nth_unstable_by_key(wanted - 1, |state| state.active.load(Ordering::Relaxed));
        let latest = now().saturating_sub(least_idle);
        let mut victims: Vec<_> = held.drain(..wanted).collect();
        held.extend(victims.extract_if(.., |state| state.active.load(Ordering::Relaxed) > latest));
        for (index, state) in held.iter().enumerate() {
            state.index.store(index, Ordering::Relaxed);
        }
        let after = held.len();
        self.total -= victims.len();
        self.recount(prefix, before, after);
        victims
    }

    fn recount(&mut self, prefix: Prefix, before: usize, after: usize) {
        self.by_count.remove(&(before, prefix));
        if after == 0 {
            self.prefixes.remove(&prefix);
        } else {
            self.by_count.insert((after, prefix));
        }
    }
}

impl Place {
    /// Drives a connection in its place, until it ends or is given up.
    pub(crate) fn hold<F: Future<Output = ()>>(self, connection: F) -> impl Future<Output = ()> {
        Held {
            place: self,
            connection: Box::pin(connection),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(self.prefix, &self.state);
    }
}

struct Held<F> {
    place: Place,
    connection: Pin<Box<F>>,
}

impl<F: Future<Output = ()>> Future for Held<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let state = &self.place.state;
        state.task.register(cx.waker());
        // Acquire pairs with the store in `give_up`, which wakes behind it.
        if state.given_up.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        state.active.store(now(), Ordering::Relaxed);
        self.connection.as_mut().poll(cx)
    }
}

/// Milliseconds of a clock that costs no system call and moves in steps of 1
/// to 10 ms.
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1000 + nanos / 1_000_000
}

/// The share of one prefix, and the part above the water mark.
const SHARES: usize = 16;
/// The part of a prefix's connections that are given up at once. A look at
/// 65,536 of them takes a millisecond, which 1,024 newcomers then share.
const AT_ONCE: usize = 64;
/// How long all places are taken before idle ones are given up unasked.
const FULL_WAIT: Duration = Duration::from_millis(250);
/// Milliseconds within which a connection counts as being at work.
const MIN_IDLE: u64 = 1000;

#[cfg(test)]
mod tests;
