//! Open connections: the limit of `[server] connections`, and which ones are
//! closed when it is near.

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
/// Below a watermark (15/16 of the limit) no prefix is limited. Above it, the
/// longest-idle connections of the largest prefix are closed while it holds
/// more than 1/16 of the limit. At the limit they are closed even below that
/// share.
#[derive(Debug)]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    limit: usize,
    open: Mutex<ByPrefix>,
    metrics: Arc<Metrics>,
    log_limits: LogLimits,
}

#[derive(Debug, Default)]
struct ByPrefix {
    total: usize,
    prefixes: HashMap<Prefix, Vec<Arc<State>>, RandomState>,
    /// Prefixes by how many connections they hold.
    by_count: BTreeSet<(usize, Prefix)>,
}

/// Place of one connection; dropping it frees the place.
#[derive(Debug)]
pub(crate) struct Place {
    connections: Arc<Connections>,
    prefix: Prefix,
    state: Arc<State>,
    _permit: OwnedSemaphorePermit,
}

/// Connection of a proxy that has not named its client yet. It counts among the
/// open connections, and belongs to no prefix.
#[derive(Debug)]
pub(crate) struct Unnamed {
    connections: Arc<Connections>,
    /// Taken when the client is known.
    permit: Option<OwnedSemaphorePermit>,
}

/// State of a connection that other tasks read, and that marks it for closing.
#[derive(Debug)]
struct State {
    /// When the connection's task last ran, in [`now`]'s milliseconds. Relaxed:
    /// comparing ages needs no order with other data.
    active: AtomicU64,
    /// Tells the task to end. Release in `give_up` pairs with Acquire in `poll`.
    given_up: AtomicBool,
    /// Index in its prefix's list. Relaxed: only read and written under the
    /// lock.
    index: AtomicUsize,
    task: AtomicWaker,
}

impl Connections {
    /// Allows `limit` connections, and one permit more per socket of `sockets`:
    /// each takes a permit before it accepts, and holds it while it waits.
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

    /// Waits for a permit. None if the server ends.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let permit = Arc::clone(&self.permits).acquire_owned();
            match timeout(FULL_WAIT, permit).await {
                Ok(permit) => return permit.ok(),
                // Connections in the kernel's backlog can't make room: their
                // prefix is not known before accept.
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

    /// Adds a new connection, and closes others if there are too many.
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

    /// Adds a connection of a proxy. It closes no others before its client is
    /// known, and is closed by its own deadline alone.
    pub(crate) fn enter_unnamed(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Unnamed {
        self.lock().total += 1;
        Unnamed {
            connections: Arc::clone(self),
            permit: Some(permit),
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

    /// Removes and returns the connections that make room for a new one of
    /// `prefix`.
    fn victims(&self, open: &mut ByPrefix, prefix: Prefix) -> Option<(Prefix, Vec<Arc<State>>)> {
        let watermark = self.limit - self.limit / SHARES;
        if open.total < watermark {
            return None;
        }
        let (count, crowd) = *open.by_count.last()?;
        if count <= self.limit / SHARES && open.total < self.limit {
            return None;
        }
        // A new connection closes no busy connection of its own prefix or of
        // one that holds about as many. It does of a prefix that holds more.
        let held = open.prefixes.get(&prefix).map_or(0, Vec::len);
        let least_idle = if count > held + 1 { 0 } else { MIN_IDLE };
        let victims = open.longest_idle(crowd, least_idle);
        (!victims.is_empty()).then_some((crowd, victims))
    }

    fn lock(&self) -> MutexGuard<'_, ByPrefix> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByPrefix {
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
        // `longest_idle` removed the connections that were given up.
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

    /// Removes and returns the connections of a prefix that have been idle for
    /// longest, at least `least_idle` milliseconds. It scans all of them, and
    /// hence removes 1/64 at once.
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
    /// Drives a connection until it ends or is given up, and holds its place
    /// meanwhile.
    pub(crate) fn hold<F>(self, connection: F) -> impl Future<Output = ()>
    where
        F: Future<Output = ()> + Unpin,
    {
        WithPlace {
            place: self,
            connection,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().remove(self.prefix, &self.state);
    }
}

impl Unnamed {
    /// Takes a place for the client's prefix, and closes others if there are
    /// too many.
    pub(crate) fn enter(mut self, prefix: Prefix) -> Place {
        let connections = Arc::clone(&self.connections);
        let permit = self.permit.take().expect("taken once, here");
        // Counted anew below its prefix.
        drop(self);
        connections.enter(prefix, permit)
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        self.connections.lock().total -= 1;
    }
}

struct WithPlace<F> {
    place: Place,
    connection: F,
}

impl<F: Future<Output = ()> + Unpin> Future for WithPlace<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let state = &self.place.state;
        state.task.register(cx.waker());
        // Acquire pairs with the Release store in `give_up`, which wakes the
        // task after it.
        if state.given_up.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        state.active.store(now(), Ordering::Relaxed);
        Pin::new(&mut self.connection).poll(cx)
    }
}

/// Returns milliseconds of the coarse monotonic clock: no system call, in steps
/// of 1 to 10 ms.
fn now() -> u64 {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1000 + nanos / 1_000_000
}

/// One prefix's share of the limit, and the part above the watermark: 1/16
/// each.
const SHARES: usize = 16;
/// Part of a prefix's connections that is closed at once: 1/64. A scan of
/// 65,536 takes 1 ms, which 1,024 new connections then share.
const AT_ONCE: usize = 64;
/// How long all permits are taken before idle connections are closed.
const FULL_WAIT: Duration = Duration::from_millis(250);
/// Milliseconds without activity after which a connection counts as idle.
const MIN_IDLE: u64 = 1000;

#[cfg(test)]
mod tests;
