//! Bounds of one server: connections in use, requests that wait for one, retries.

mod queue;
mod retries;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use tokio::time::{Instant, timeout_at};

use queue::{Place, Queue};
pub(super) use retries::Retries;

/// Connections of one server that are in use, and the requests that wait.
///
/// Each site brings its own bounds, which hold for its tenant's connections and
/// waiting requests, of all workers together. All tenants have at most [`MOST`], and
/// a tenant fewer than are left: it can't take what another's sites may use. Hosts
/// of a tenant that wait get its returned slots in turn. When no more requests of a tenant may wait,
/// the newest of its host with most of them is refused in favour of a host with fewer.
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

/// Source of a request, as hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asker {
    pub(super) tenant: u64,
    pub(super) host: u64,
}

#[derive(Debug, Default)]
struct State {
    used: Used,
    queue: Queue,
}

/// Slots in use, by tenant.
#[derive(Debug, Default)]
struct Used {
    all: u32,
    by_tenant: HashMap<u64, u32, RandomState>,
}

impl Slots {
    /// Returns whether a request would get a slot at once.
    pub(super) fn has_room(&self, tenant: u64, connections: u32) -> bool {
        // With so few in use, no tenant has more, and as many are left.
        if self.in_use.load(Ordering::Relaxed) < connections.min(MOST / 2) {
            return true;
        }
        let state = self.lock();
        state.queue.of_tenant(tenant) == 0 && state.used.has_room(tenant, connections)
    }

    /// Takes a slot, if there is one and no request of the tenant waits.
    pub(super) fn take(slots: &Arc<Self>, tenant: u64, connections: u32) -> Option<Slot> {
        slots.take_from(&mut slots.lock(), tenant, connections)
    }

    fn take_from(
        self: &Arc<Self>,
        state: &mut State,
        tenant: u64,
        connections: u32,
    ) -> Option<Slot> {
        // Requests of the tenant that wait already come first.
        let is_first = state.queue.of_tenant(tenant) == 0;
        if !is_first || !state.used.take(tenant, connections) {
            return None;
        }
        self.in_use.store(state.used.all, Ordering::Relaxed);
        Some(self.slot(tenant))
    }

    /// Waits for a slot until `until`. Dropping the future leaves the queue.
    pub(super) async fn enter(
        slots: &Arc<Self>,
        asker: Asker,
        bounds: Bounds,
        until: Instant,
    ) -> Result<Slot, Denied> {
        let turn = {
            let mut state = slots.lock();
            let slot = slots.take_from(&mut state, asker.tenant, bounds.connections);
            if let Some(slot) = slot {
                return Ok(slot);
            }
            state.queue.enter(asker, bounds)?
        };
        let (place, turn) = turn;
        let _leaves = Leaves { slots, place };
        // A bound above those of the requests before it may leave room.
        slots.pass_on(asker.tenant);
        match timeout_at(until, turn).await {
            // The sender is dropped without sending only if it makes room.
            Ok(turn) => turn.map_err(|_| Denied::Full),
            Err(_) => Err(Denied::TimedOut),
        }
    }

    fn slot(self: &Arc<Self>, tenant: u64) -> Slot {
        Slot {
            slots: Arc::clone(self),
            tenant,
        }
    }

    /// Gives free slots to the tenant's requests that wait. Those of other tenants wait
    /// for slots of their own.
    fn pass_on(self: &Arc<Self>, tenant: u64) {
        loop {
            let turn = {
                let mut state = self.lock();
                let State { used, queue } = &mut *state;
                let turn = match used.has_room(tenant, u32::MAX) {
                    true => queue.next(tenant, used.of_tenant(tenant)),
                    false => None,
                };
                let Some(turn) = turn else { return };
                used.add(tenant);
                self.in_use.store(used.all, Ordering::Relaxed);
                turn
            };
            // Outside of the lock: a request that left gives its slot back here.
            let _ = turn.send(self.slot(tenant));
        }
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
            state.used.give_back(self.tenant);
            self.slots.in_use.store(state.used.all, Ordering::Relaxed);
            state.queue.of_tenant(self.tenant) > 0
        };
        if is_awaited {
            self.slots.pass_on(self.tenant);
        }
    }
}

impl Used {
    fn of_tenant(&self, tenant: u64) -> u32 {
        self.by_tenant.get(&tenant).copied().unwrap_or(0)
    }

    fn has_room(&self, tenant: u64, connections: u32) -> bool {
        self.of_tenant(tenant) < connections.min(MOST.saturating_sub(self.all))
    }

    fn take(&mut self, tenant: u64, connections: u32) -> bool {
        let has_room = self.has_room(tenant, connections);
        if has_room {
            self.add(tenant);
        }
        has_room
    }

    fn add(&mut self, tenant: u64) {
        self.all += 1;
        *self.by_tenant.entry(tenant).or_default() += 1;
    }

    fn give_back(&mut self, tenant: u64) {
        self.all -= 1;
        if let Some(used) = self.by_tenant.get_mut(&tenant) {
            *used -= 1;
            if *used == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }
}

/// Connections of one server, and requests that wait for one. Twice the bound that a
/// site may set: a tenant that is alone has all of its own bound.
const MOST: u32 = 2 << 16;

#[cfg(test)]
mod tests;
