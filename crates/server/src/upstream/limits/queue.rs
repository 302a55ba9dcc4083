//! Requests that wait for a connection, by tenant and host.

use std::collections::{BTreeMap, HashMap};

use foldhash::quality::RandomState;
use tokio::sync::oneshot;

use super::{Asker, Bounds, Denied, MOST, Slot};

/// Requests that wait for a connection to one server. Each step takes a time that hardly
/// grows with their number: requests of all tenants share the server's lock.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: HashMap<u64, Line, RandomState>,
    all: u32,
    /// Requests that entered.
    entered: u64,
}

/// Requests of one tenant. Its hosts take turns, with one request of each in a round
/// (*virtual time* of fair queuing).
#[derive(Debug, Default)]
struct Line {
    waiting: u32,
    /// Requests by the bound that each brought, in the order of their turns.
    by_bound: BTreeMap<u32, BTreeMap<Turn, Waiting>>,
    hosts: HashMap<u64, Host, RandomState>,
    /// Round of the last request that got a slot.
    round: u64,
}

/// Order of requests: by round, and in a round as they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    round: u64,
    number: u64,
}

#[derive(Debug)]
struct Waiting {
    host: u64,
    slot: oneshot::Sender<Slot>,
}

/// Requests of one host.
#[derive(Debug)]
struct Host {
    waiting: u32,
    /// Round of the newest.
    last: u64,
}

/// Place of a request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) tenant: u64,
    connections: u32,
    turn: Turn,
}

impl Queue {
    /// Returns how many requests of a tenant wait.
    pub(super) fn of_tenant(&self, tenant: u64) -> u32 {
        self.lines.get(&tenant).map_or(0, |line| line.waiting)
    }

    /// Adds a request. If no more of the tenant may wait, the newest of its host with
    /// most of them makes room.
    ///
    /// # Errors
    /// [`Denied::Full`] for a host whose own requests are about as many.
    pub(super) fn enter(
        &mut self,
        asker: Asker,
        bounds: Bounds,
    ) -> Result<(Place, oneshot::Receiver<Slot>), Denied> {
        let tenant = asker.tenant;
        let most = bounds.waiting.min(MOST.saturating_sub(self.all));
        if self.of_tenant(tenant) >= most {
            let line = self.lines.get_mut(&tenant).ok_or(Denied::Full)?;
            // Dropping the sender refuses its request.
            line.make_room(asker.host).map(drop).ok_or(Denied::Full)?;
            self.all -= 1;
        }
        self.entered += 1;
        let (slot, receiver) = oneshot::channel();
        let line = self.lines.entry(tenant).or_default();
        let turn = Turn {
            round: line.next_round(asker.host),
            number: self.entered,
        };
        let host = asker.host;
        line.add(bounds.connections, turn, Waiting { host, slot });
        self.all += 1;
        let place = Place {
            tenant,
            connections: bounds.connections,
            turn,
        };
        Ok((place, receiver))
    }

    /// Takes the tenant's next request whose bound lies above the `used` connections.
    pub(super) fn next(&mut self, tenant: u64, used: u32) -> Option<oneshot::Sender<Slot>> {
        let line = self.lines.get_mut(&tenant)?;
        let next = line.next(used)?;
        self.all -= 1;
        self.forget(tenant);
        Some(next)
    }

    /// Removes a request, if it still waits.
    pub(super) fn leave(&mut self, place: Place) {
        let Some(line) = self.lines.get_mut(&place.tenant) else {
            return;
        };
        if line.remove(place.connections, place.turn).is_some() {
            self.all -= 1;
            self.forget(place.tenant);
        }
    }

    /// Forgets a tenant of which no request waits.
    fn forget(&mut self, tenant: u64) {
        if self.of_tenant(tenant) == 0 {
            self.lines.remove(&tenant);
        }
    }
}

impl Line {
    /// Returns the round of a host's next request.
    fn next_round(&self, host: u64) -> u64 {
        let own = self.hosts.get(&host).map_or(0, |host| host.last);
        self.round.max(own) + 1
    }

    fn add(&mut self, connections: u32, turn: Turn, waiting: Waiting) {
        let none = Host {
            waiting: 0,
            last: 0,
        };
        let host = self.hosts.entry(waiting.host).or_insert(none);
        host.waiting += 1;
        host.last = turn.round;
        self.waiting += 1;
        let of_bound = self.by_bound.entry(connections).or_default();
        of_bound.insert(turn, waiting);
    }

    fn remove(&mut self, connections: u32, turn: Turn) -> Option<oneshot::Sender<Slot>> {
        let of_bound = self.by_bound.get_mut(&connections)?;
        let Waiting { host, slot } = of_bound.remove(&turn)?;
        if of_bound.is_empty() {
            self.by_bound.remove(&connections);
        }
        self.waiting -= 1;
        if let Some(of_host) = self.hosts.get_mut(&host) {
            of_host.waiting -= 1;
            if of_host.waiting == 0 {
                self.hosts.remove(&host);
            }
        }
        Some(slot)
    }

    fn next(&mut self, used: u32) -> Option<oneshot::Sender<Slot>> {
        let eligible = self.by_bound.range(used.saturating_add(1)..).rev();
        let firsts = eligible.take(BOUNDS).filter_map(|(bound, requests)| {
            let (turn, _) = requests.first_key_value()?;
            Some((*turn, *bound))
        });
        let (turn, connections) = firsts.min()?;
        self.round = self.round.max(turn.round);
        self.remove(connections, turn)
    }

    /// Removes the newest request of the host with most of them: that of the last round.
    /// None if one of this host would have as late a turn.
    fn make_room(&mut self, host: u64) -> Option<oneshot::Sender<Slot>> {
        let lasts = self.by_bound.iter().take(BOUNDS);
        let lasts = lasts.filter_map(|(bound, requests)| {
            let (turn, _) = requests.last_key_value()?;
            Some((*turn, *bound))
        });
        let (turn, connections) = lasts.max()?;
        let makes_room = turn.round > self.next_round(host);
        makes_room.then(|| self.remove(connections, turn))?
    }
}

/// Bounds of one tenant that are looked at. Few tenants have sites with different bounds
/// for one server.
const BOUNDS: usize = 16;
