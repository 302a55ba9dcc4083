//! Connections of one server in use, by tenant and client prefix.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::quality::RandomState;
use tokio::time::Instant;

use super::{Asker, MOST, PATIENCE};
use crate::budget::Prefix;
use crate::upstream::exchange::{Exchange, GAVE_WAY};

/// Slots in use. A tenant has fewer than all others leave, and a client prefix has fewer
/// of its tenant's than are left.
#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) all: u32,
    by_tenant: HashMap<u64, Tenant, RandomState>,
    /// Number of the last body.
    numbers: u64,
}

#[derive(Debug, Default)]
struct Tenant {
    used: u32,
    clients: HashMap<Prefix, Client, RandomState>,
}

#[derive(Debug, Default)]
struct Client {
    held: u32,
    /// Slots whose bodies gave way, and that are not back yet.
    coming: u32,
    /// Bodies of requests that hold a slot, the first that came at the begin.
    bodies: BTreeMap<u64, Arc<Exchange>>,
}

impl Used {
    pub(super) fn of_tenant(&self, tenant: u64) -> u32 {
        self.by_tenant.get(&tenant).map_or(0, |tenant| tenant.used)
    }

    pub(super) fn of_client(&self, tenant: u64, client: Prefix) -> u32 {
        let tenant = self.by_tenant.get(&tenant);
        let client = tenant.and_then(|tenant| tenant.clients.get(&client));
        client.map_or(0, |client| client.held)
    }

    /// Returns how many slots of a bound are left to a tenant.
    fn left(&self, tenant: u64, connections: u32) -> u32 {
        let most = connections.min(MOST.saturating_sub(self.all));
        most.saturating_sub(self.of_tenant(tenant))
    }

    /// Returns whether a client of a tenant may have one more.
    pub(super) fn has_room(&self, tenant: u64, client: Prefix, connections: u32) -> bool {
        self.of_client(tenant, client) < self.left(tenant, connections)
    }

    pub(super) fn take(&mut self, tenant: u64, client: Prefix, connections: u32) -> bool {
        let has_room = self.has_room(tenant, client, connections);
        if has_room {
            self.add(tenant, client);
        }
        has_room
    }

    pub(super) fn add(&mut self, tenant: u64, client: Prefix) {
        self.all += 1;
        let tenant = self.by_tenant.entry(tenant).or_default();
        tenant.used += 1;
        tenant.clients.entry(client).or_default().held += 1;
    }

    /// Returns a slot, and forgets the body that had it.
    pub(super) fn give_back(&mut self, tenant: u64, client: Prefix, body: Option<u64>) {
        self.all -= 1;
        let of_tenant = self.by_tenant.get_mut(&tenant);
        let Some(of_tenant) = of_tenant else { return };
        of_tenant.used -= 1;
        if let Some(of_client) = of_tenant.clients.get_mut(&client) {
            of_client.held -= 1;
            let body = body.and_then(|body| of_client.bodies.remove(&body));
            if body.is_some_and(|body| body.is(GAVE_WAY)) {
                of_client.coming -= 1;
            }
            if of_client.held == 0 {
                of_tenant.clients.remove(&client);
            }
        }
        if of_tenant.used == 0 && self.by_tenant.len() > KEPT {
            self.by_tenant.remove(&tenant);
        }
    }

    /// Notes the body of a request that holds a slot. Returns its number.
    pub(super) fn watch(&mut self, tenant: u64, client: Prefix, body: &Arc<Exchange>) -> u64 {
        self.numbers += 1;
        let of_tenant = self.by_tenant.get_mut(&tenant);
        let of_client = of_tenant.and_then(|it| it.clients.get_mut(&client));
        if let Some(of_client) = of_client {
            of_client.bodies.insert(self.numbers, Arc::clone(body));
        }
        self.numbers
    }

    /// Makes bodies give way for a client prefix with few slots that gets none: of the
    /// prefix with most, the one that has waited longest for its client.
    pub(super) fn reclaim(&mut self, asker: Asker, connections: u32, now: Instant) {
        let own = self.of_client(asker.tenant, asker.client);
        let left = self.left(asker.tenant, connections);
        let Some(tenant) = self.by_tenant.get_mut(&asker.tenant) else {
            return;
        };
        let coming: u32 = tenant.clients.values().map(|client| client.coming).sum();
        let left = left + coming;
        if own >= FEW || own < left {
            return;
        }
        let clients = tenant.clients.values_mut();
        let mut clients: Vec<_> = clients.filter(|it| !it.bodies.is_empty()).collect();
        clients.sort_unstable_by_key(|client| Reverse(client.held));
        for _ in left..=own {
            let gave_way = clients.iter_mut().any(|client| {
                // Twice as many as the asker then has: none takes from the other in turn.
                client.held - client.coming > 2 * (own + 1) && client.give_way(now)
            });
            if !gave_way {
                return;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let mut tenants = self.by_tenant.values();
        self.all == 0 && tenants.all(|it| it.used == 0 && it.clients.is_empty())
    }
}

impl Client {
    /// Makes the body that has waited longest for its client give way, if that is long.
    fn give_way(&mut self, now: Instant) -> bool {
        let bodies = self.bodies.values().take(BODIES);
        let waiting = bodies.filter_map(|body| Some((body.waiting_since()?, body)));
        let longest = waiting.min_by_key(|(since, _)| *since);
        let longest =
            longest.filter(|(since, _)| now.saturating_duration_since(*since) >= PATIENCE);
        if let Some((_, body)) = longest {
            body.give_way();
            self.coming += 1;
        }
        longest.is_some()
    }
}

/// Slots up to which a client prefix may claim those of larger ones: more than the six
/// requests that browsers send at once over HTTP/1.1.
const FEW: u32 = 8;

/// Bodies of a prefix that are looked at: all that one may have with the default bound.
const BODIES: usize = 1024;

/// Tenants whose entry stays while none of their slots is in use: a request that is alone
/// allocates nothing.
const KEPT: usize = 4;
