//! Choice of a server: which of a site's servers gets a request.

pub(in crate::upstream) mod draw;
pub(in crate::upstream) mod rendezvous;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ejection::{Standing, Trial};
use super::{Affinity, Server, Servers, Use};
use crate::site::{Balance, UpstreamOptions};
use draw::Load;

/// Choice for one request.
pub(in crate::upstream) struct Choice<'a> {
    pub(in crate::upstream) servers: &'a Servers,
    pub(in crate::upstream) used: Use<'a>,
    /// Hash of the request's tenant.
    pub(in crate::upstream) tenant: u64,
    pub(in crate::upstream) by: &'a Affinity<'a>,
    /// Indices of the servers that had the request already.
    pub(in crate::upstream) tried: &'a [usize],
    pub(in crate::upstream) now: u64,
}

/// Server with its index.
type Picked = (usize, Arc<Server>);

/// Server that takes the request, and the permit to try it if it is ejected.
type Taken = (Picked, Trial);

impl Choice<'_> {
    /// Returns the server, and its index:
    ///
    /// 1. the one that the client or its cookie keeps, if the site asks for that;
    /// 2. else the less loaded of two at random;
    /// 3. if that takes no requests, or has no free connection, the least loaded of
    ///    all, those with a free connection first;
    /// 4. if all are ejected or fail their checks, the one whose pause ends first.
    ///
    /// None if all were tried.
    pub(in crate::upstream) fn server(&self) -> Option<Taken> {
        let picked = match self.key() {
            Some(key) => self.keeper(key, true).or_else(|| self.keeper(key, false)),
            None => self
                .less_loaded()
                .or_else(|| self.least_loaded(true))
                .or_else(|| self.least_loaded(false)),
        };
        let first = || Some((self.first_to_come_back()?, Trial::default()));
        picked.or_else(first)
    }

    fn options(&self) -> &UpstreamOptions {
        self.used.upstream.options()
    }

    fn key(&self) -> Option<u64> {
        match &self.options().balance {
            Balance::LeastInFlight => None,
            Balance::ClientAddress => Some(rendezvous::client(self.by.client)),
            Balance::Cookie(_) => self.by.cookie,
        }
    }

    /// Returns the indices and weights of the servers that were not tried.
    fn untried(&self) -> impl Iterator<Item = (usize, u16)> + Clone {
        let servers = self.used.upstream.servers.iter().enumerate();
        let untried = servers.filter(|(index, _)| !self.tried.contains(index));
        untried.map(|(index, server)| (index, server.weight))
    }

    /// Returns the servers that were not tried and take requests. `due` adds those
    /// whose pause is over: another request may claim one first.
    fn taking(&self, due: bool) -> impl Iterator<Item = Picked> {
        let servers = self.untried().map(|(index, _)| self.picked(index));
        servers.filter(move |(_, server)| {
            let takes = match server.ejection.standing(self.now) {
                Standing::Healthy => true,
                Standing::Due => due,
                Standing::Ejected(_) => false,
            };
            takes && !self.is_down(server)
        })
    }

    fn less_loaded(&self) -> Option<Taken> {
        let (first, second) = draw::two(self.untried(), self.servers.random())?;
        let mut picked = self.picked(first);
        if let Some(other) = second.map(|second| self.picked(second))
            && self.load(&other).is_below(self.load(&picked))
        {
            picked = other;
        }
        let picked = Some(picked).filter(|picked| self.has_room(picked));
        self.taken(picked?)
    }

    fn least_loaded(&self, due: bool) -> Option<Taken> {
        let is_better =
            |one: &Picked, other: &Picked| match (self.has_room(one), self.has_room(other)) {
                (true, false) => true,
                (false, true) => false,
                _ => self.load(one).is_below(self.load(other)),
            };
        let least = self
            .taking(due)
            .reduce(|least, one| if is_better(&one, &least) { one } else { least });
        self.taken(least?)
    }

    fn keeper(&self, key: u64, due: bool) -> Option<Taken> {
        let score = |(index, _): &Picked| {
            let server = &self.used.upstream.servers[*index];
            rendezvous::score(key, &server.address, server.weight)
        };
        let best = self
            .taking(due)
            .max_by(|one, other| score(one).total_cmp(&score(other)));
        self.taken(best?)
    }

    fn first_to_come_back(&self) -> Option<Picked> {
        let servers = self.untried().map(|(index, _)| self.picked(index));
        servers.min_by_key(|(_, server)| (server.ejection.standing(self.now), self.is_down(server)))
    }

    fn picked(&self, index: usize) -> Picked {
        let address = &self.used.upstream.servers[index].address;
        (index, self.servers.server(&self.used, address))
    }

    /// Returns the server if it takes this request. Of the requests that come when its
    /// pause is over, it takes one.
    fn taken(&self, picked: Picked) -> Option<Taken> {
        let (_, server) = &picked;
        if self.is_down(server) {
            return None;
        }
        let trial = server.ejection.claim(self.now)?;
        Some((picked, trial))
    }

    /// Returns whether the site's check of a server failed.
    fn is_down(&self, server: &Arc<Server>) -> bool {
        let checks = &server.common.checks;
        checks.is_down(server, self.used.upstream, self.by, self.now)
    }

    fn has_room(&self, (_, server): &Picked) -> bool {
        let client = self.by.client.into();
        server.permits.has_room(self.tenant, client)
    }

    fn load(&self, (index, server): &Picked) -> Load {
        Load {
            in_flight: server.in_flight.load(Ordering::Relaxed),
            weight: self.used.upstream.servers[*index].weight,
        }
    }
}
