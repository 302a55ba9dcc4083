//! Open connections: the limit of `[server] connections`, and which ones are
//! closed when it is near.

mod by_prefix;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::budget::Prefix;
use crate::log_limiter::LogLimits;
use crate::metrics::Metrics;

use by_prefix::{ByPrefix, State};

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
