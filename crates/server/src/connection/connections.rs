//! Open connections of one worker: its part of `[server] connections`, and which one is
//! closed for another at that limit.

mod by_prefix;

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use sekisho_certs::lock;
use sekisho_certs::metrics::InGauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::connection::stage::Stage;
use crate::limits::budget::Prefix;
use crate::limits::log_limiter::LogLimits;
use crate::limits::timeouts::ConnTimeouts;
use crate::observe::metrics::Metrics;

use by_prefix::{ByPrefix, State};

/// Open connections of one worker, and their limit.
///
/// Below the limit no prefix is limited. At the limit, one more is accepted, and closes
/// another one, or is closed itself: see [`Self::enter`].
///
/// Each worker's lies on cache lines of its own: each accept and each close counts
/// references to it.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Connections {
    permits: Arc<Semaphore>,
    /// Number of all permits: those of sockets that wait to accept, too.
    all: u32,
    limit: usize,
    /// Locked by the worker's thread alone.
    table: Mutex<ByPrefix>,
    metrics: Arc<Metrics>,
    log_limits: Arc<LogLimits>,
}

/// Permit of one connection; dropping it passes it on.
#[derive(Debug)]
pub(crate) struct ConnectionPermit {
    connections: Arc<Connections>,
    prefix: Prefix,
    state: Arc<State>,
    _permit: OwnedSemaphorePermit,
}

/// Handle that says when a connection was last active.
pub(crate) struct Activity(Arc<State>);

/// Connection of a proxy that has not named its client yet. It counts among the
/// open connections, and belongs to no prefix.
#[derive(Debug)]
pub(crate) struct Unnamed {
    connections: Arc<Connections>,
    /// Whether the connection is the one beyond the limit.
    extra: bool,
    /// Taken when the client is known.
    permit: Option<OwnedSemaphorePermit>,
}

impl Connections {
    /// Divides `limit` among the workers, with at least one connection for each. Each of a
    /// worker's `sockets` has one permit more: it takes a permit before it accepts, and
    /// holds the permit while it waits.
    pub(crate) fn of_workers(
        workers: usize,
        limit: usize,
        sockets: usize,
        metrics: Arc<Metrics>,
    ) -> impl Iterator<Item = Arc<Self>> {
        let log_limits = Arc::new(LogLimits::default());
        (0..workers).map(move |worker| {
            let limit = (limit / workers + usize::from(worker < limit % workers)).max(1);
            let all = u32::try_from(limit.saturating_add(sockets)).unwrap_or(u32::MAX);
            Arc::new(Self {
                permits: Arc::new(Semaphore::new(all as usize)),
                all,
                limit,
                table: Mutex::default(),
                metrics: Arc::clone(&metrics),
                log_limits: Arc::clone(&log_limits),
            })
        })
    }

    /// Waits for a permit. None if the server ends.
    pub(crate) async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        let permits = Arc::clone(&self.permits);
        permits.acquire_owned().await.ok()
    }

    /// Resolves when no connection is open. No more may be accepted meanwhile.
    pub(crate) async fn all_closed(&self) {
        // Fails only once the semaphore is closed, which it never is.
        let _ = self.permits.acquire_many(self.all).await;
    }

    /// Returns how many connections are open.
    pub(crate) fn open(&self) -> usize {
        lock(&self.table).total
    }

    /// Adds a connection of `prefix` that begins `now`. At the limit it closes the longest
    /// idle connection of the largest prefix, or of the largest prefix within a wider one
    /// that holds more than 16 times as many:
    ///
    /// 1. one that was idle for [`MIN_IDLE`];
    /// 2. else, of a prefix that holds more than `prefix` will: even one that is active. A
    ///    wider prefix counts as a sixteenth of what it holds;
    /// 3. without such a one, returns None: the new connection is closed.
    pub(crate) fn enter(
        self: &Arc<Self>,
        prefix: Prefix,
        permit: OwnedSemaphorePermit,
        now: Instant,
    ) -> Option<ConnectionPermit> {
        let mut table = lock(&self.table);
        if table.total >= self.limit {
            let victim = table.take_longest_idle(prefix, now);
            let largest_group = victim
                .as_ref()
                .map_or(prefix, |(largest_group, _)| *largest_group);
            self.metrics.connection_given_up();
            self.log_limits.given_up(largest_group, self.limit);
            victim?.1.give_up();
        }
        let state = table.add(prefix, now);
        drop(table);
        Some(ConnectionPermit {
            connections: Arc::clone(self),
            prefix,
            state,
            _permit: permit,
        })
    }

    /// Adds a connection of a proxy. It closes no others before its client is known.
    pub(crate) fn enter_unnamed(self: &Arc<Self>, permit: OwnedSemaphorePermit) -> Unnamed {
        let mut table = lock(&self.table);
        table.total += 1;
        Unnamed {
            connections: Arc::clone(self),
            extra: table.total > self.limit,
            permit: Some(permit),
        }
    }
}

impl ConnectionPermit {
    /// Returns the handle that says when the connection was last active.
    pub(crate) fn activity(&self) -> Activity {
        Activity(Arc::clone(&self.state))
    }

    /// Drives a connection until it ends or is given up. Holds its permit meanwhile, and
    /// what counts it as open.
    pub(crate) fn hold(self, stage: Stage, open: InGauge) -> impl Future<Output = ()> {
        OpenConnection {
            permit: self,
            stage,
            _open: open,
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        lock(&self.connections.table).remove(self.prefix, &self.state);
    }
}

impl Activity {
    /// Reads the activity of a connection from its requests, once its handshake is done.
    pub(crate) fn read_from(&self, timeouts: &Arc<ConnTimeouts>) {
        let _ = self.0.requests.set(Arc::clone(timeouts));
    }
}

impl Unnamed {
    /// Returns the time at which the connection beyond the limit is closed if its client
    /// is not known: until then its socket accepts no other. None for all others.
    pub(crate) fn deadline(&self, begun: Instant) -> Option<Instant> {
        self.extra.then(|| begun + EXTRA_WAIT)
    }

    /// Takes a permit for the client's prefix as [`Connections::enter`] does.
    pub(crate) fn enter(mut self, prefix: Prefix) -> Option<ConnectionPermit> {
        let connections = Arc::clone(&self.connections);
        let permit = self.permit.take().expect("taken once, here");
        // Counted anew below its prefix.
        drop(self);
        connections.enter(prefix, permit, Instant::now())
    }
}

impl Drop for Unnamed {
    fn drop(&mut self) {
        lock(&self.connections.table).total -= 1;
    }
}

/// Open connection in one of its stages.
struct OpenConnection {
    permit: ConnectionPermit,
    stage: Stage,
    _open: InGauge,
}

impl Future for OpenConnection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let state = &self.permit.state;
        state.task.register(cx.waker());
        // Acquire pairs with the Release store in `give_up`, which wakes the
        // task after it.
        if state.given_up.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.stage.poll_all(cx)
    }
}

/// Time without a request after which a connection makes room for one of its own
/// prefix, or of one that holds about as many. Behind a balancer all clients are one
/// prefix: active ones keep their connections, and idle ones shut nobody out.
const MIN_IDLE: Duration = Duration::from_secs(1);
/// Longest time that a connection beyond the limit may take to name its client.
const EXTRA_WAIT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
