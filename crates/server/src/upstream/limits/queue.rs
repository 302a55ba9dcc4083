//! Requests that wait for a connection, by tenant, client prefix and host.

mod line;

use std::collections::HashMap;

use foldhash::quality::RandomState;
use tokio::sync::oneshot;

use super::{Asker, Bounds, Denied, MOST, Slot};
use crate::budget::Prefix;
use line::Line;

/// Requests that wait for a connection to one server. Each step takes a time that hardly
/// grows with their number: requests of all tenants share the server's lock.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lines: HashMap<u64, Line, RandomState>,
    all: u32,
    /// Requests that entered.
    entered: u64,
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

/// Place of a request in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    tenant: u64,
    client: Prefix,
    connections: u32,
    turn: Turn,
}

impl Queue {
    /// Returns how many requests of a tenant wait.
    pub(super) fn of_tenant(&self, tenant: u64) -> u32 {
        self.lines.get(&tenant).map_or(0, Line::len)
    }

    /// Returns how many requests of a tenant's client prefix wait.
    pub(super) fn of_client(&self, tenant: u64, client: Prefix) -> u32 {
        let line = self.lines.get(&tenant);
        line.map_or(0, |line| line.of_client(client))
    }

    /// Adds a request, whose client has `held` slots. A client prefix has fewer places of
    /// its tenant's than are left. If there is none, a request makes room:
    ///
    /// - in a full line, the newest of the prefix with most, if that has more than the asker's, or
    ///   else if its host has more waiting than the asker's;
    /// - in the prefix's own part, the newest of its host with most.
    ///
    /// # Errors
    /// [`Denied::Full`] if none has more than the asker.
    pub(super) fn enter(
        &mut self,
        asker: Asker,
        held: u32,
        bounds: Bounds,
    ) -> Result<(Place, oneshot::Receiver<Slot>), Denied> {
        let Asker {
            tenant,
            host,
            client,
        } = asker;
        let most = bounds.waiting.min(MOST.saturating_sub(self.all));
        if let Some(line) = self.lines.get_mut(&tenant) {
            let (own, left) = (line.of_client(client), most.saturating_sub(line.len()));
            if own >= left {
                let from = match own + line.len() {
                    all if all <= most => line.largest(),
                    _ => Some(client),
                };
                let made = from.and_then(|from| line.make_room(from, own, host));
                // Dropping the sender refuses its request.
                made.map(drop).ok_or(Denied::Full)?;
                self.all -= 1;
            }
        } else if most == 0 {
            return Err(Denied::Full);
        }
        self.entered += 1;
        let (slot, receiver) = oneshot::channel();
        let line = self.lines.entry(tenant).or_default();
        let turn = Turn {
            round: line.next_round(host),
            number: self.entered,
        };
        let connections = bounds.connections;
        line.add(client, held, connections, turn, Waiting { host, slot });
        self.all += 1;
        let place = Place {
            tenant,
            client,
            connections,
            turn,
        };
        Ok((place, receiver))
    }

    /// Takes the tenant's next request that may have one more slot, where `used` of them
    /// are in use and `most` could be. Returns its client prefix, too.
    pub(super) fn next(
        &mut self,
        tenant: u64,
        used: u32,
        most: u32,
    ) -> Option<(Prefix, oneshot::Sender<Slot>)> {
        let line = self.lines.get_mut(&tenant)?;
        let next = line.next(used, most)?;
        self.all -= 1;
        self.forget(tenant);
        Some(next)
    }

    /// Notes how many slots a client prefix has.
    pub(super) fn recount(&mut self, tenant: u64, client: Prefix, held: u32) {
        if let Some(line) = self.lines.get_mut(&tenant) {
            line.recount(client, held);
        }
    }

    /// Removes a request, if it still waits.
    pub(super) fn leave(&mut self, place: Place) {
        let Some(line) = self.lines.get_mut(&place.tenant) else {
            return;
        };
        let left = line.remove(place.client, place.connections, place.turn);
        if left.is_some() {
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
