//! Requests that wait for a connection to one backend, by client prefix and host.
//!
//! Hosts take turns, with one request of each in a round (*virtual time* of fair queuing).
//! Requests of a client prefix that has its share of permits are passed over. Each step
//! takes a time that hardly grows with their number.

use sekisho_gate::Denied;
use tokio::sync::oneshot;

use super::state::{Client, State};
use super::{Asker, Permit};
use crate::limits::budget::Prefix;

/// Order of requests: by round, and in a round as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    round: u64,
    number: u64,
}

#[derive(Debug)]
pub(super) struct Waiting {
    host: u64,
    permit: oneshot::Sender<Permit>,
}

/// Requests of one host.
#[derive(Debug, Default)]
pub(super) struct Host {
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

impl State {
    /// Adds a request to those that may wait. A client prefix has fewer of these than are
    /// left. If there is none, a request makes room:
    ///
    /// - in a full queue, the newest of the prefix with most, if that has more than the asker's, or
    ///   else if its host has more waiting than the asker's;
    /// - in the prefix's own part, the newest of its host with most.
    ///
    /// # Errors
    /// [`Denied::Full`] if none has more than the asker.
    pub(super) fn queue(
        &mut self,
        asker: Asker,
    ) -> Result<(Position, oneshot::Receiver<Permit>), Denied> {
        let Asker { host, client } = asker;
        let most = self.bounds.waiting;
        let own = self.clients.get(&client).map_or(0, Client::waiting);
        if own >= most.saturating_sub(self.waiting) {
            let from = match own + self.waiting <= most {
                true => self.largest(),
                false => Some(client),
            };
            let made = from.and_then(|from| self.make_room(from, own, host));
            // Dropping the sender refuses its request.
            made.map(drop).ok_or(Denied::Full)?;
        }
        self.last += 1;
        let turn = Turn {
            round: self.next_round(host),
            number: self.last,
        };
        let of_host = self.hosts.entry(host).or_default();
        of_host.waiting += 1;
        of_host.last = turn.round;
        self.waiting += 1;
        let (permit, receiver) = oneshot::channel();
        let waiting = Waiting { host, permit };
        self.change(client, |of_client| of_client.requests.insert(turn, waiting));
        Ok((Position { client, turn }, receiver))
    }

    /// Takes a permit for the first request of a prefix that has fewer than are left.
    /// Returns its client prefix, too.
    pub(super) fn next(&mut self) -> Option<(Prefix, oneshot::Sender<Permit>)> {
        let left = self.left();
        let fewest = self.order.iter().take_while(|(held, ..)| *held < left);
        let firsts = fewest
            .take(CLIENTS)
            .map(|(_, turn, client)| (*turn, *client));
        let (turn, client) = firsts.min()?;
        self.round = self.round.max(turn.round);
        let permit = self.remove(client, turn)?;
        self.add(client);
        Some((client, permit))
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
        let waiting = self.order.iter().map(|(.., client)| client);
        let size = |client: &&Prefix| {
            let of_client = self.clients.get(client);
            of_client.map(|it| (it.waiting(), it.last()))
        };
        waiting.max_by_key(size).copied()
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
}

/// Client prefixes that are looked at, those with the fewest permits first.
const CLIENTS: usize = 64;
