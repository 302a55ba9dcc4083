//! Requests of one tenant that wait for a connection.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::quality::RandomState;
use tokio::sync::oneshot;

use super::{Turn, Waiting};
use crate::budget::Prefix;
use crate::upstream::limits::Slot;

/// Requests of one tenant. Its hosts take turns, with one request of each in a round
/// (*virtual time* of fair queuing). Requests of a client prefix that has its share of
/// slots are passed over.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: u32,
    clients: HashMap<Prefix, Client, RandomState>,
    /// Client prefixes that wait, by the slots that they have and their first turn.
    order: BTreeSet<(u32, Turn, Prefix)>,
    hosts: HashMap<u64, Host, RandomState>,
    /// Round of the last request that got a slot.
    round: u64,
}

/// Requests of one client prefix.
#[derive(Debug, Default)]
struct Client {
    held: u32,
    waiting: u32,
    /// Requests by the bound that each brought, in the order of their turns.
    by_bound: BTreeMap<u32, BTreeMap<Turn, Waiting>>,
}

/// Requests of one host.
#[derive(Debug, Default)]
struct Host {
    waiting: u32,
    /// Round of the newest.
    last: u64,
}

impl Line {
    pub(super) fn len(&self) -> u32 {
        self.waiting
    }

    /// Returns how many requests of a client prefix wait.
    pub(super) fn of_client(&self, client: Prefix) -> u32 {
        self.clients.get(&client).map_or(0, |client| client.waiting)
    }

    /// Returns the round of a host's next request.
    pub(super) fn next_round(&self, host: u64) -> u64 {
        let own = self.hosts.get(&host).map_or(0, |host| host.last);
        self.round.max(own) + 1
    }

    pub(super) fn add(
        &mut self,
        client: Prefix,
        held: u32,
        connections: u32,
        turn: Turn,
        waiting: Waiting,
    ) {
        let host = self.hosts.entry(waiting.host).or_default();
        host.waiting += 1;
        host.last = turn.round;
        self.waiting += 1;
        self.change(client, |of_client| {
            of_client.held = held;
            of_client.waiting += 1;
            let of_bound = of_client.by_bound.entry(connections).or_default();
            of_bound.insert(turn, waiting);
        });
    }

    pub(super) fn remove(
        &mut self,
        client: Prefix,
        connections: u32,
        turn: Turn,
    ) -> Option<oneshot::Sender<Slot>> {
        let removed = self.change(client, |of_client| of_client.remove(connections, turn));
        let Waiting { host, slot } = removed?;
        self.waiting -= 1;
        if let Some(of_host) = self.hosts.get_mut(&host) {
            of_host.waiting -= 1;
            if of_host.waiting == 0 {
                self.hosts.remove(&host);
            }
        }
        Some(slot)
    }

    /// Takes the first request of a prefix that has fewer slots than are left.
    pub(super) fn next(&mut self, used: u32, most: u32) -> Option<(Prefix, oneshot::Sender<Slot>)> {
        let fewest = self.order.iter().take(CLIENTS);
        let firsts = fewest.filter_map(|(held, _, client)| {
            let taken = used + held;
            let (turn, bound) = self.clients.get(client)?.first(taken)?;
            (taken < most).then_some((turn, bound, *client))
        });
        let (turn, bound, client) = firsts.min()?;
        self.round = self.round.max(turn.round);
        Some((client, self.remove(client, bound, turn)?))
    }

    /// Notes how many slots a client prefix has.
    pub(super) fn recount(&mut self, client: Prefix, held: u32) {
        if self.clients.contains_key(&client) {
            self.change(client, |of_client| of_client.held = held);
        }
    }

    /// Returns the client prefix with most requests; of several, that of the newest.
    pub(super) fn largest(&self) -> Option<Prefix> {
        let clients = self.clients.iter();
        let largest = clients.max_by_key(|(_, client)| (client.waiting, client.last()));
        largest.map(|(client, _)| *client)
    }

    /// Removes the newest request of a client prefix: that of the last round. None if the
    /// prefix has no more than `own` and a request of this host would have as late a turn.
    pub(super) fn make_room(
        &mut self,
        client: Prefix,
        own: u32,
        host: u64,
    ) -> Option<oneshot::Sender<Slot>> {
        let of_client = self.clients.get(&client)?;
        let (turn, connections) = of_client.last()?;
        let makes_room = of_client.waiting > own + 1 || turn.round > self.next_round(host);
        makes_room.then(|| self.remove(client, connections, turn))?
    }

    /// Changes the requests of a client prefix, and its place in the order.
    fn change<T>(&mut self, client: Prefix, change: impl FnOnce(&mut Client) -> T) -> T {
        let of_client = self.clients.entry(client).or_default();
        if let Some((turn, _)) = of_client.first(0) {
            self.order.remove(&(of_client.held, turn, client));
        }
        let changed = change(of_client);
        match of_client.first(0) {
            Some((turn, _)) => {
                self.order.insert((of_client.held, turn, client));
            }
            None => {
                self.clients.remove(&client);
            }
        }
        changed
    }
}

impl Client {
    fn remove(&mut self, connections: u32, turn: Turn) -> Option<Waiting> {
        let of_bound = self.by_bound.get_mut(&connections)?;
        let removed = of_bound.remove(&turn)?;
        if of_bound.is_empty() {
            self.by_bound.remove(&connections);
        }
        self.waiting -= 1;
        Some(removed)
    }

    /// Returns the first request whose bound lies above `taken` slots, and the bound.
    fn first(&self, taken: u32) -> Option<(Turn, u32)> {
        let eligible = self.by_bound.range(taken.saturating_add(1)..).rev();
        let firsts = eligible.take(BOUNDS).filter_map(|(bound, requests)| {
            let (turn, _) = requests.first_key_value()?;
            Some((*turn, *bound))
        });
        firsts.min()
    }

    /// Returns the last request.
    fn last(&self) -> Option<(Turn, u32)> {
        let lasts = self.by_bound.iter().take(BOUNDS);
        let lasts = lasts.filter_map(|(bound, requests)| {
            let (turn, _) = requests.last_key_value()?;
            Some((*turn, *bound))
        });
        lasts.max()
    }
}

/// Bounds of one tenant that are looked at. Few tenants have sites with different bounds
/// for one server.
const BOUNDS: usize = 16;

/// Client prefixes that are looked at, those with the fewest slots first.
const CLIENTS: usize = 64;
