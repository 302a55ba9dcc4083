//! Permits of one backend in use, and requests that wait for one, by client prefix.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::quality::RandomState;
use tokio::time::Instant;

use super::queue::{Host, Turn, Waiting};
use super::{Bounds, PATIENCE};
use crate::limits::budget::Prefix;
use crate::upstream::request::exchange::{Exchange, GAVE_WAY};

/// Permits in use, and requests that wait. A client prefix has fewer permits than are left.
#[derive(Debug)]
pub(super) struct State {
    pub(super) bounds: Bounds,
    /// Permits in use.
    pub(super) used: u32,
    /// Requests that wait.
    pub(super) waiting: u32,
    /// Number of the last body or request.
    pub(super) last: u64,
    pub(super) clients: HashMap<Prefix, Client, RandomState>,
    /// Client prefixes that wait, by the permits that they have and their first turn.
    pub(super) order: BTreeSet<(u32, Turn, Prefix)>,
    /// Hosts that wait.
    pub(super) hosts: HashMap<u64, Host, RandomState>,
    /// Round of the last request that got a permit.
    pub(super) round: u64,
}

/// Permits and requests of one client prefix.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// Permits that it has.
    held: u32,
    /// Permits whose bodies gave way, and that are not back yet.
    coming: u32,
    /// Bodies of requests that hold a permit, the first that came at the begin.
    bodies: BTreeMap<u64, Arc<Exchange>>,
    /// Requests that wait.
    pub(super) requests: BTreeMap<Turn, Waiting>,
}

impl State {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            used: 0,
            waiting: 0,
            last: 0,
            clients: HashMap::default(),
            order: BTreeSet::new(),
            hosts: HashMap::default(),
            round: 0,
        }
    }

    /// Returns how many permits are left.
    pub(super) fn left(&self) -> u32 {
        self.bounds.connections.saturating_sub(self.used)
    }

    /// Returns whether a client prefix may have one more permit at once: none of its
    /// requests waits.
    pub(super) fn has_room(&self, client: Prefix) -> bool {
        let left = self.left();
        self.clients.get(&client).map_or(left > 0, |of_client| {
            of_client.requests.is_empty() && of_client.held < left
        })
    }

    /// Takes a permit, if the client prefix may have one at once.
    pub(super) fn take(&mut self, client: Prefix) -> bool {
        let has_room = self.has_room(client);
        if has_room {
            self.add(client);
        }
        has_room
    }

    pub(super) fn add(&mut self, client: Prefix) {
        self.used += 1;
        self.change(client, |of_client| of_client.held += 1);
    }

    /// Returns a permit, and forgets the body that had it.
    pub(super) fn give_back(&mut self, client: Prefix, body: Option<u64>) {
        self.used -= 1;
        self.change(client, |of_client| {
            of_client.held -= 1;
            let body = body.and_then(|body| of_client.bodies.remove(&body));
            if body.is_some_and(|body| body.is(GAVE_WAY)) {
                of_client.coming -= 1;
            }
        });
    }

    /// Notes the body of a request that holds a permit. Returns its number.
    pub(super) fn watch(&mut self, client: Prefix, body: &Arc<Exchange>) -> u64 {
        self.last += 1;
        if let Some(of_client) = self.clients.get_mut(&client) {
            of_client.bodies.insert(self.last, Arc::clone(body));
        }
        self.last
    }

    /// Makes bodies give way for a client prefix with few permits that gets none: of the
    /// prefix with most, the one that has waited longest for its client.
    pub(super) fn reclaim(&mut self, client: Prefix, now: Instant) {
        let own = self.clients.get(&client).map_or(0, |client| client.held);
        // No prefix can have more than twice as many, so none has to give way.
        if own >= FEW || self.used <= 2 * (own + 1) {
            return;
        }
        let coming: u32 = self.clients.values().map(|client| client.coming).sum();
        let left = self.left() + coming;
        if own < left {
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

    /// Changes what is known of a client prefix, and its place in the order.
    pub(super) fn change<T>(&mut self, client: Prefix, change: impl FnOnce(&mut Client) -> T) -> T {
        let of_client = self.clients.entry(client).or_default();
        if let Some(turn) = of_client.first() {
            self.order.remove(&(of_client.held, turn, client));
        }
        let changed = change(of_client);
        if let Some(turn) = of_client.first() {
            self.order.insert((of_client.held, turn, client));
        } else if of_client.held == 0 {
            self.clients.remove(&client);
        }
        changed
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0 && self.waiting == 0 && self.clients.is_empty() && self.hosts.is_empty()
    }
}

impl Client {
    pub(super) fn waiting(&self) -> u32 {
        u32::try_from(self.requests.len()).unwrap_or(u32::MAX)
    }

    fn first(&self) -> Option<Turn> {
        self.requests.first_key_value().map(|(turn, _)| *turn)
    }

    pub(super) fn last(&self) -> Option<Turn> {
        self.requests.last_key_value().map(|(turn, _)| *turn)
    }

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
