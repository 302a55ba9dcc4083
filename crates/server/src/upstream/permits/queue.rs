//! Requests that wait for a connection to one backend, by client prefix and host.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::quality::RandomState;
use sekisho_gate::Denied;
use tokio::sync::oneshot;

use super::{Asker, Permit};
use crate::limits::budget::Prefix;

/// Requests that wait. Hosts take turns, with one request of each in a round (*virtual
/// time* of fair queuing). Requests of a client prefix that has its share of permits are
/// passed over. Each step takes a time that hardly grows with their number.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: u32,
    /// Requests that entered.
    entered: u64,
    clients: HashMap<Prefix, Client, RandomState>,
    /// Client prefixes that wait, by the permits that they have and their first turn.
    order: BTreeSet<(u32, Turn, Prefix)>,
    hosts: HashMap<u64, Host, RandomState>,
    /// Round of the last request that got a permit.
    round: u64,
}

/// Order of requests: by round, and in a round as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    round: u64,
    number: u64,
}

/// Requests of one client prefix.
#[derive(Debug, Default)]
struct Client {
    /// Permits that it has.
    held: u32,
    requests: BTreeMap<Turn, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    host: u64,
    permit: oneshot::Sender<Permit>,
}

/// Requests of one host.
#[derive(Debug, Default)]
struct Host {
    waiting: u32,
    /// Round of the newest.
    last: u64,
}

/// Position of a request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    client: Prefix,
    turn: Turn,
}

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Returns how many requests of a client prefix wait.
    pub(super) fn of_client(&self, client: Prefix) -> u32 {
        self.clients.get(&client).map_or(0, Client::waiting)
    }

    /// Adds a request, whose client has `held` permits, to `most` that may wait. A client
    /// prefix has fewer of these than are left. If there is none, a request makes room:
    ///
    /// - in a full queue, the newest of the prefix with most, if that has more than the asker's, or
    ///   else if its host has more waiting than the asker's;
    /// - in the prefix's own part, the newest of its host with most.
    ///
    /// # Errors
    /// [`Denied::Full`] if none has more than the asker.
    pub(super) fn enter(
        &mut self,
        asker: Asker,
        held: u32,
        most: u32,
    ) -> Result<(Position, oneshot::Receiver<Permit>), Denied> {
        let Asker { host, client } = asker;
        let own = self.of_client(client);
        if own >= most.saturating_sub(self.waiting) {
            let from = match own + self.waiting <= most {
                true => self.largest(),
                false => Some(client),
            };
            let made = from.and_then(|from| self.make_room(from, own, host));
            // Dropping the sender refuses its request.
            made.map(drop).ok_or(Denied::Full)?;
        }
        self.entered += 1;
        let (permit, receiver) = oneshot::channel();
        let turn = Turn {
            round: self.next_round(host),
            number: self.entered,
        };
        self.add(client, held, turn, Waiting { host, permit });
        Ok((Position { client, turn }, receiver))
    }

    /// Takes the first request of a prefix that has fewer permits than the `left` ones.
    /// Returns its client prefix, too.
    pub(super) fn next(&mut self, left: u32) -> Option<(Prefix, oneshot::Sender<Permit>)> {
        let fewest = self.order.iter().take_while(|(held, ..)| *held < left);
        let firsts = fewest
            .take(CLIENTS)
            .map(|(_, turn, client)| (*turn, *client));
        let (turn, client) = firsts.min()?;
        self.round = self.round.max(turn.round);
        Some((client, self.remove(client, turn)?))
    }

    /// Notes how many permits a client prefix has.
    pub(super) fn recount(&mut self, client: Prefix, held: u32) {
        if self.clients.contains_key(&client) {
            self.change(client, |of_client| of_client.held = held);
        }
    }

    /// Removes a request, if it still waits.
    pub(super) fn leave(&mut self, position: Position) {
        self.remove(position.client, position.turn);
    }

    /// Returns the round of a host's next request.
    fn next_round(&self, host: u64) -> u64 {
        let own = self.hosts.get(&host).map_or(0, |host| host.last);
        self.round.max(own) + 1
    }

    fn add(&mut self, client: Prefix, held: u32, turn: Turn, waiting: Waiting) {
        let host = self.hosts.entry(waiting.host).or_default();
        host.waiting += 1;
        host.last = turn.round;
        self.waiting += 1;
        self.change(client, |of_client| {
            of_client.held = held;
            of_client.requests.insert(turn, waiting);
        });
    }

    fn remove(&mut self, client: Prefix, turn: Turn) -> Option<oneshot::Sender<Permit>> {
        let removed = self.change(client, |of_client| of_client.requests.remove(&turn));
        let Waiting { host, permit } = removed?;
        self.waiting -= 1;
        if let Some(of_host) = self.hosts.get_mut(&host) {
            of_host.waiting -= 1;
            if of_host.waiting == 0 {
                self.hosts.remove(&host);
            }
        }
        Some(permit)
    }

    /// Returns the client prefix with most requests; of several, that of the newest.
    fn largest(&self) -> Option<Prefix> {
        let clients = self.clients.iter();
        let largest = clients.max_by_key(|(_, client)| (client.waiting(), client.last()));
        largest.map(|(client, _)| *client)
    }

    /// Removes the newest request of a client prefix: that of the last round. None if the
    /// prefix has no more than `own` and a request of this host would have as late a turn.
    fn make_room(
        &mut self,
        client: Prefix,
        own: u32,
        host: u64,
    ) -> Option<oneshot::Sender<Permit>> {
        let of_client = self.clients.get(&client)?;
        let turn = of_client.last()?;
        let makes_room = of_client.waiting() > own + 1 || turn.round > self.next_round(host);
        makes_room.then(|| self.remove(client, turn))?
    }

    /// Changes the requests of a client prefix, and its place in the order.
    fn change<T>(&mut self, client: Prefix, change: impl FnOnce(&mut Client) -> T) -> T {
        let of_client = self.clients.entry(client).or_default();
        if let Some(turn) = of_client.first() {
            self.order.remove(&(of_client.held, turn, client));
        }
        let changed = change(of_client);
        match of_client.first() {
            Some(turn) => {
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
    fn waiting(&self) -> u32 {
        u32::try_from(self.requests.len()).unwrap_or(u32::MAX)
    }

    fn first(&self) -> Option<Turn> {
        self.requests.first_key_value().map(|(turn, _)| *turn)
    }

    fn last(&self) -> Option<Turn> {
        self.requests.last_key_value().map(|(turn, _)| *turn)
    }
}

/// Client prefixes that are looked at, those with the fewest permits first.
const CLIENTS: usize = 64;
