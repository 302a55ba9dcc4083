//! Bounds of one backend: connections in use, requests that wait for one, retries.

mod by_tenant;
mod queue;
mod retries;
mod state;

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::lock;
use sekisho_gate::Denied;
use tokio::time::{Instant, timeout_at};

use super::request::exchange::Exchange;
use crate::limits::budget::Prefix;
use crate::site::UpstreamOptions;
pub(super) use by_tenant::PermitsOfOwner;
use queue::Position;
pub(super) use retries::Retries;
use state::State;

/// Permits of one backend: its connections that are in use, and the requests that wait
/// for one, of all workers together.
///
/// A client prefix has fewer permits and waiting requests than are left: alone half of
/// them. Where none is left, the prefix with most gives up the body that has waited
/// longest for its client.
///
/// Hosts that wait get returned permits in turn. When no more requests may wait, the
/// newest of the prefix or host with most of them is refused in favour of one with fewer.
#[derive(Debug)]
pub(super) struct Permits {
    state: Mutex<State>,
    /// Copy of the count in `state`, for choices. Relaxed: a choice may see the count
    /// of a moment ago.
    in_use: AtomicU32,
    /// With fewer in use, more are left than any client prefix has.
    half: u32,
}

/// Permit to use one connection to a server. Dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Permit {
    permits: Arc<Permits>,
    client: Prefix,
    /// Number of the request's body; none without one.
    body: Option<u64>,
}

/// Bounds that a site sets for one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) connections: u32,
    pub(super) waiting: u32,
}

/// Source of a request. The host is a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub(super) host: u64,
    pub(super) client: Prefix,
}

impl Permits {
    pub(super) fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(bounds)),
            in_use: AtomicU32::new(0),
            half: bounds.connections.div_ceil(2),
        })
    }

    /// Returns whether a request would get a permit at once.
    pub(super) fn has_room(&self, client: Prefix) -> bool {
        self.in_use.load(Ordering::Relaxed) < self.half || lock(&self.state).has_room(client)
    }

    /// Takes a permit, if there is one and no request of the client prefix waits. Those of
    /// others that wait may have none of what is left.
    pub(super) fn try_enter(self: &Arc<Self>, asker: Asker) -> Option<Permit> {
        self.try_enter_locked(&mut lock(&self.state), asker.client)
    }

    fn try_enter_locked(self: &Arc<Self>, state: &mut State, client: Prefix) -> Option<Permit> {
        let is_taken = state.take(client);
        self.in_use.store(state.used, Ordering::Relaxed);
        is_taken.then(|| self.permit(client))
    }

    /// Waits for a permit until `until`. Dropping the future leaves the queue.
    pub(super) async fn enter(
        self: &Arc<Self>,
        asker: Asker,
        until: Instant,
    ) -> Result<Permit, Denied> {
        let (position, turn) = {
            let mut state = lock(&self.state);
            if let Some(permit) = self.try_enter_locked(&mut state, asker.client) {
                return Ok(permit);
            }
            state.queue(asker)?
        };
        let _leaves = Leaves {
            permits: self,
            position,
        };
        let mut turn = pin!(turn);
        loop {
            let now = Instant::now();
            lock(&self.state).reclaim(asker.client, now);
            let again = (now + PATIENCE).min(until);
            match timeout_at(again, turn.as_mut()).await {
                // The sender is dropped without sending only if it makes room.
                Ok(turn) => return turn.map_err(|_| Denied::Full),
                Err(_) if again == until => return Err(Denied::Late),
                Err(_) => {}
            }
        }
    }

    fn permit(self: &Arc<Self>, client: Prefix) -> Permit {
        Permit {
            permits: Arc::clone(self),
            client,
            body: None,
        }
    }

    /// Gives free permits to the requests that wait.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let (client, turn) = {
                let mut state = lock(&self.state);
                let Some(next) = state.next() else {
                    return;
                };
                self.in_use.store(state.used, Ordering::Relaxed);
                next
            };
            // Outside of the lock: a request that left gives its permit back here.
            let _ = turn.send(self.permit(client));
        }
    }
}

impl Bounds {
    pub(super) fn of(options: &UpstreamOptions) -> Self {
        Self {
            connections: options.connections,
            waiting: options.waiting,
        }
    }
}

impl Permit {
    /// Lets the body of the permit's request give way where no permit is left.
    pub(super) fn watch(&mut self, body: &Arc<Exchange>) {
        let mut state = lock(&self.permits.state);
        self.body = Some(state.watch(self.client, body));
    }
}

/// Request that leaves the queue with its future. The queue counts no request that left.
struct Leaves<'a> {
    permits: &'a Permits,
    position: Position,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        lock(&self.permits.state).leave(self.position);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let is_awaited = {
            let mut state = lock(&self.permits.state);
            state.give_back(self.client, self.body);
            self.permits.in_use.store(state.used, Ordering::Relaxed);
            state.waiting > 0
        };
        if is_awaited {
            self.permits.pass_on();
        }
    }
}

/// How long a body waits for its client before it may give way: longer than most round
/// trips. Requests without a permit look for such a body as often.
const PATIENCE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
