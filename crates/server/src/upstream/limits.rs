//! Bounds of one server: connections in use, requests that wait for one, retries.

mod queue;
mod retries;
mod used;

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::exchange::Exchange;
use crate::budget::Prefix;
use queue::{Place, Queue};
pub(super) use retries::Retries;
use used::Used;

/// Connections of one server that are in use, and the requests that wait.
///
/// Each site brings its own bounds, which hold for its tenant's connections and
/// waiting requests, of all workers together. All tenants have at most [`MOST`], and
/// a tenant fewer than are left: it can't take what another's sites may use. In the same
/// way, a client prefix has fewer of its tenant's slots and waiting requests than are
/// left. Where none is left, the prefix with most gives the body that has waited longest
/// for its client.
///
/// Hosts of a tenant that wait get its returned slots in turn. When no more requests of a
/// tenant may wait, the newest of its prefix or host with most of them is refused in
/// favour of one with fewer.
#[derive(Debug, Default)]
pub(super) struct Slots {
    state: Mutex<State>,
    /// Copy of the count in `state`, for choices. Relaxed: a choice may see the count
    /// of a moment ago.
    in_use: AtomicU32,
}

/// Right to use one connection to a server. Dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    tenant: u64,
    client: Prefix,
    /// Number of the request's body; none without one.
    body: Option<u64>,
}

/// Bounds of a site on one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) connections: u32,
    pub(super) waiting: u32,
}

/// Reason why a request gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// Too many requests wait already.
    Full,
    /// No slot came free in time.
    TimedOut,
}

/// Source of a request. Tenant and host are hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub(super) tenant: u64,
    pub(super) host: u64,
    pub(super) client: Prefix,
}

#[derive(Debug, Default)]
struct State {
    used: Used,
    queue: Queue,
}

impl Slots {
    /// Returns whether a request would get a slot at once.
    pub(super) fn has_room(&self, tenant: u64, client: Prefix, connections: u32) -> bool {
        // With so few in use, more are left than any tenant's client has.
        let in_use = self.in_use.load(Ordering::Relaxed);
        if in_use < connections.div_ceil(2).min(MOST / 4) {
            return true;
        }
        let state = self.lock();
        let waiting = state.queue.of_client(tenant, client);
        waiting == 0 && state.used.has_room(tenant, client, connections)
    }

    /// Takes a slot, if there is one and no request of the client prefix waits. Those of
    /// others that wait may have none of what is left.
    pub(super) fn take(slots: &Arc<Self>, asker: Asker, connections: u32) -> Option<Slot> {
        slots.take_from(&mut slots.lock(), asker, connections)
    }

    fn take_from(
        self: &Arc<Self>,
        state: &mut State,
        asker: Asker,
        connections: u32,
    ) -> Option<Slot> {
        let Asker { tenant, client, .. } = asker;
        let waiting = state.queue.of_client(tenant, client);
        if waiting > 0 || !state.used.take(tenant, client, connections) {
            return None;
        }
        self.in_use.store(state.used.all, Ordering::Relaxed);
        Some(self.slot(tenant, client))
    }

    /// Waits for a slot until `until`. Dropping the future leaves the queue.
    pub(super) async fn enter(
        slots: &Arc<Self>,
        asker: Asker,
        bounds: Bounds,
        until: Instant,
    ) -> Result<Slot, Denied> {
        let (place, turn) = {
            let mut state = slots.lock();
            let slot = slots.take_from(&mut state, asker, bounds.connections);
            if let Some(slot) = slot {
                return Ok(slot);
            }
            let held = state.used.of_client(asker.tenant, asker.client);
            state.queue.enter(asker, held, bounds)?
        };
        let _leaves = Leaves { slots, place };
        // A bound above those of the requests before it may leave room.
        slots.pass_on(asker.tenant);
        let mut turn = pin!(turn);
        loop {
            let now = Instant::now();
            slots.lock().used.reclaim(asker, bounds.connections, now);
            let again = (now + PATIENCE).min(until);
            match timeout_at(again, turn.as_mut()).await {
                // The sender is dropped without sending only if it makes room.
                Ok(turn) => return turn.map_err(|_| Denied::Full),
                Err(_) if again == until => return Err(Denied::TimedOut),
                Err(_) => {}
            }
        }
    }

    fn slot(self: &Arc<Self>, tenant: u64, client: Prefix) -> Slot {
        Slot {
            slots: Arc::clone(self),
            tenant,
            client,
            body: None,
        }
    }

    /// Gives free slots to the tenant's requests that wait. Those of other tenants wait
    /// for slots of their own.
    fn pass_on(self: &Arc<Self>, tenant: u64) {
        loop {
            let (client, turn) = {
                let mut state = self.lock();
                let State { used, queue } = &mut *state;
                let in_use = used.of_tenant(tenant);
                let next = queue.next(tenant, in_use, MOST.saturating_sub(used.all));
                let Some((client, turn)) = next else { return };
                used.add(tenant, client);
                self.in_use.store(used.all, Ordering::Relaxed);
                self.recount(&mut state, tenant, client);
                (client, turn)
            };
            // Outside of the lock: a request that left gives its slot back here.
            let _ = turn.send(self.slot(tenant, client));
        }
    }

    /// Tells the queue how many slots a client prefix has.
    fn recount(&self, state: &mut State, tenant: u64, client: Prefix) {
        let held = state.used.of_client(tenant, client);
        state.queue.recount(tenant, client, held);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Returns the hash of the tenant.
    pub(super) fn tenant(&self) -> u64 {
        self.tenant
    }

    /// Lets the body of the slot's request give way where the tenant has no slot left.
    pub(super) fn watch(&mut self, body: &Arc<Exchange>) {
        let mut state = self.slots.lock();
        let number = state.used.watch(self.tenant, self.client, body);
        self.body = Some(number);
    }
}

/// Request that leaves the queue with its future. The queue counts no request that left.
struct Leaves<'a> {
    slots: &'a Arc<Slots>,
    place: Place,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.slots.lock().queue.leave(self.place);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let is_awaited = {
            let mut state = self.slots.lock();
            state.used.give_back(self.tenant, self.client, self.body);
            self.slots.in_use.store(state.used.all, Ordering::Relaxed);
            let is_awaited = state.queue.of_tenant(self.tenant) > 0;
            if is_awaited {
                self.slots.recount(&mut state, self.tenant, self.client);
            }
            is_awaited
        };
        if is_awaited {
            self.slots.pass_on(self.tenant);
        }
    }
}

/// Connections of one server, and requests that wait for one. Twice the bound that a
/// site may set: a tenant that is alone has all of its own bound.
const MOST: u32 = 2 << 16;

/// How long a body waits for its client before it may give way: longer than most round
/// trips. Requests without a slot look for such a body as often.
const PATIENCE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests;
