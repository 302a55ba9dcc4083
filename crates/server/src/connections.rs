//! Open connections: the limit of `[server] connections`, and which ones are
//! closed when it is near. Each worker has a table of its own.

mod by_prefix;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
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
use crate::shared::Alone;

use by_prefix::{ByPrefix, State};

/// Open connections of one worker, and those of all, where they are scarce.
///
/// Each worker's lies on cache lines of its own: each accept and each close counts
/// references to it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Connections {
    all: Arc<All>,
    /// Index of the worker's table.
    worker: usize,
}

/// All open connections, by worker and by the client's prefix.
///
/// Below a watermark (15/16 of the limit) no prefix is limited, and a worker locks its
/// own table alone: a limit below it would lock all tables at each accept. Above it, the
/// longest-idle connections of the largest prefix are closed while it holds more than 1/16
/// of the limit. At the limit they are closed even below that share.
#[derive(Debug)]
struct All {
    permits: Arc<Semaphore>,
    limit: usize,
    /// Free permits at the watermark.
    scarce: usize,
    tables: Box<[Alone<Mutex<ByPrefix>>]>,
    /// A worker holds it while it chooses connections to close. Others go on and close
    /// none: waiting would stall all that they serve.
    choosing: Mutex<()>,
    /// New connections for which nothing was closed because another worker chose. The
    /// next choice closes for them too. Relaxed: guards no other data.
    passed_over: AtomicUsize,
    metrics: Arc<Metrics>,
    log_limits: LogLimits,
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

impl Connections {
    /// Makes the tables of all workers. Together they may open `limit` connections. There
    /// is one permit more per socket of `sockets`: each takes a permit before it accepts,
    /// and holds it while it waits.
    pub(crate) fn of_workers(
        workers: usize,
        limit: usize,
        sockets: usize,
        metrics: Arc<Metrics>,
    ) -> impl Iterator<Item = Arc<Self>> {
        let permits = limit.saturating_add(sockets).min(Semaphore::MAX_PERMITS);
        let all = Arc::new(All {
            permits: Arc::new(Semaphore::new(permits)),
            limit,
            scarce: permits.saturating_sub(watermark(limit)),
            tables: (0..workers).map(|_| Alone::default()).collect(),
            choosing: Mutex::default(),
            passed_over: AtomicUsize::new(0),
            metrics,
            log_limits: LogLimits::default(),
        });
        (0..workers).map(move |worker| {
            let all = Arc::clone(&all);
            Arc::new(Self { all, worker })
        })
    }

    /// Waits for a permit. None if the server ends.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            let permit = Arc::clone(&self.all.permits).acquire_owned();
            match timeout(FULL_WAIT, permit).await {
                Ok(permit) => return permit.ok(),
                // Connections in the kernel's backlog can't make room: their
                // prefix is not known before accept.
                Err(_) => self.all.make_room(),
            }
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
        self.all.make_room_for(prefix);
        self.lock().add(prefix, Arc::clone(&state));
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

    fn lock(&self) -> MutexGuard<'_, ByPrefix> {
        lock(&self.all.tables[self.worker])
    }
}

impl All {
    fn make_room(&self) {
        let Some(choosing) = self.choose() else {
            return;
        };
        let Some((_, crowd)) = self.crowd() else {
            return;
        };
        let victims = self.longest_idle(crowd, MIN_IDLE, 1);
        drop(choosing);
        self.give_up(crowd, &victims);
    }

    /// Closes connections if there are too many for a new one of `prefix`.
    fn make_room_for(&self, prefix: Prefix) {
        // Each connection in a table holds a permit: the tables hold no more than that.
        if self.permits.available_permits() > self.scarce {
            return;
        }
        if let Some((crowd, victims)) = self.victims(prefix) {
            self.give_up(crowd, &victims);
        }
    }

    fn give_up(&self, crowd: Prefix, victims: &[Arc<State>]) {
        if victims.is_empty() {
            return;
        }
        for victim in victims {
            victim.given_up.store(true, Ordering::Release);
            victim.task.wake();
        }
        self.metrics.connections_given_up(victims.len());
        self.log_limits.given_up(crowd, self.limit);
    }

    /// Removes and returns the connections that make room for a new one of
    /// `prefix`.
    fn victims(&self, prefix: Prefix) -> Option<(Prefix, Vec<Arc<State>>)> {
        let Some(_choosing) = self.choose() else {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        // Also where nothing is closed: the new connections passed over need no room then.
        let wanted = 1 + self.passed_over.swap(0, Ordering::Relaxed);
        let total = self.total();
        if total < watermark(self.limit) {
            return None;
        }
        let (count, crowd) = self.crowd()?;
        if count <= self.limit / SHARES && total < self.limit {
            return None;
        }
        // A new connection closes no busy connection of its own prefix or of
        // one that holds about as many. It does of a prefix that holds more.
        let least_idle = if count > self.count(prefix) + 1 {
            0
        } else {
            MIN_IDLE
        };
        Some((crowd, self.longest_idle(crowd, least_idle, wanted)))
    }

    /// Begins a choice. None while another worker makes one.
    fn choose(&self) -> Option<MutexGuard<'_, ()>> {
        match self.choosing.try_lock() {
            Ok(choosing) => Some(choosing),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the largest prefix, and how many connections it holds.
    ///
    /// A prefix above its share holds more than a part of a share at some worker, so that
    /// only such prefixes are added up. If there is none, the prefix that holds the most at
    /// one worker stands for the largest: adding up thousands of small ones would take
    /// milliseconds.
    fn crowd(&self) -> Option<(usize, Prefix)> {
        let part = self.limit / SHARES / self.tables.len();
        let mut counts = HashMap::<Prefix, usize, RandomState>::default();
        for table in self.tables() {
            for (held, prefix) in table.larger_than(part) {
                *counts.entry(prefix).or_default() += held;
            }
        }
        if counts.is_empty() {
            let (_, prefix) = self.tables().filter_map(|table| table.largest()).max()?;
            counts.insert(prefix, self.count(prefix));
        } else if part > 0 {
            for (prefix, count) in &mut counts {
                *count = self.count(*prefix);
            }
        }
        counts
            .into_iter()
            .map(|(prefix, count)| (count, prefix))
            .max()
    }

    /// Removes and returns the connections of a prefix that have been idle for
    /// longest, at least `least_idle` milliseconds. It scans all of them, and
    /// hence removes 1/64 at once, or `wanted` if these are more.
    fn longest_idle(&self, prefix: Prefix, least_idle: u64, wanted: usize) -> Vec<Arc<State>> {
        let found = self.try_longest_idle(prefix, least_idle, wanted);
        if found.is_empty() && least_idle == 0 {
            // All that were chosen have run meanwhile.
            return self.try_longest_idle(prefix, least_idle, wanted);
        }
        found
    }

    fn try_longest_idle(&self, prefix: Prefix, least_idle: u64, wanted: usize) -> Vec<Arc<State>> {
        let mut runs = Vec::with_capacity(self.count(prefix));
        for table in self.tables() {
            runs.extend(table.last_runs(prefix));
        }
        let at_once = (runs.len() / AT_ONCE).max(wanted);
        let latest = now().saturating_sub(least_idle);
        runs.retain(|(active, _)| *active <= latest);
        let Some(last) = at_once.min(runs.len()).checked_sub(1) else {
            return Vec::new();
        };
        let last = *runs.select_nth_unstable(last).1;
        let victims = self.tables().map(|mut table| table.take_idle(prefix, last));
        victims.flatten().collect()
    }

    /// Returns how many connections a prefix holds.
    fn count(&self, prefix: Prefix) -> usize {
        self.tables().map(|table| table.count(prefix)).sum()
    }

    fn total(&self) -> usize {
        self.tables().map(|table| table.total).sum()
    }

    /// Locks the tables, one after the other: another worker waits for its own alone.
    fn tables(&self) -> impl Iterator<Item = MutexGuard<'_, ByPrefix>> {
        self.tables.iter().map(lock)
    }
}

fn lock(Alone(table): &Alone<Mutex<ByPrefix>>) -> MutexGuard<'_, ByPrefix> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
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

/// Returns how many connections may be open before prefixes are limited.
fn watermark(limit: usize) -> usize {
    limit - limit / SHARES
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
/// Part of a prefix's connections that is closed at once: 1/64. A scan of 65,536 takes
/// milliseconds, which 1,024 new connections then share.
const AT_ONCE: usize = 64;
/// How long all permits are taken before idle connections are closed.
const FULL_WAIT: Duration = Duration::from_millis(250);
/// Milliseconds without activity after which a connection counts as idle.
const MIN_IDLE: u64 = 1000;

#[cfg(test)]
mod tests;
