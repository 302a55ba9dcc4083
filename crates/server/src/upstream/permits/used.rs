//! Connections of one backend in use, by client prefix.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::quality::RandomState;
use tokio::time::Instant;

use super::PATIENCE;
use crate::limits::budget::Prefix;
use crate::upstream::exchange::{Exchange, GAVE_WAY};

/// Permits in use. A client prefix has fewer than are left.
#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) all: u32,
    clients: HashMap<Prefix, Client, RandomState>,
    /// Number of the last body.
    numbers: u64,
}

#[derive(Debug, Default)]
struct Client {
    held: u32,
    /// Permits whose bodies gave way, and that are not back yet.
    coming: u32,
    /// Bodies of requests that hold a permit, the first that came at the begin.
    bodies: BTreeMap<u64, Arc<Exchange>>,
}

impl Used {
    pub(super) fn of_client(&self, client: Prefix) -> u32 {
        self.clients.get(&client).map_or(0, |client| client.held)
    }

    /// Returns whether a client may have one more of so many.
    pub(super) fn has_room(&self, client: Prefix, connections: u32) -> bool {
        self.of_client(client) < connections.saturating_sub(self.all)
    }

    pub(super) fn take(&mut self, client: Prefix, connections: u32) -> bool {
        let has_room = self.has_room(client, connections);
        if has_room {
            self.add(client);
        }
        has_room
    }

    pub(super) fn add(&mut self, client: Prefix) {
        self.all += 1;
        self.clients.entry(client).or_default().held += 1;
    }

    /// Returns a permit, and forgets the body that had it.
    pub(super) fn give_back(&mut self, client: Prefix, body: Option<u64>) {
        self.all -= 1;
        let Some(of_client) = self.clients.get_mut(&client) else {
            return;
        };
        of_client.held -= 1;
        let body = body.and_then(|body| of_client.bodies.remove(&body));
        if body.is_some_and(|body| body.is(GAVE_WAY)) {
            of_client.coming -= 1;
        }
        if of_client.held == 0 {
            self.clients.remove(&client);
        }
    }

    /// Notes the body of a request that holds a permit. Returns its number.
    pub(super) fn watch(&mut self, client: Prefix, body: &Arc<Exchange>) -> u64 {
        self.numbers += 1;
        if let Some(of_client) = self.clients.get_mut(&client) {
            of_client.bodies.insert(self.numbers, Arc::clone(body));
        }
        self.numbers
    }

    /// Makes bodies give way for a client prefix with few permits that gets none: of the
    /// prefix with most, the one that has waited longest for its client.
    pub(super) fn reclaim(&mut self, client: Prefix, connections: u32, now: Instant) {
        let own = self.of_client(client);
        let coming: u32 = self.clients.values().map(|client| client.coming).sum();
        let left = connections.saturating_sub(self.all) + coming;
        if own >= FEW || own < left {
            return;
        }
        let clients = self.clients.values_mut();
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
        self.all == 0 && self.clients.is_empty()
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

/// Permits up to which a client prefix may claim those of larger ones: more than the six
/// requests that browsers send at once over HTTP/1.1.
const FEW: u32 = 8;

/// Bodies of a prefix that are looked at: all that one may have with the default bound.
const BODIES: usize = 1024;
