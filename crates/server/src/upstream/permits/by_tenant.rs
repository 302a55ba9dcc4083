//! Permits of a backend's owner: each tenant's own where the operator's hosts share it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use foldhash::quality::RandomState;

use super::{Bounds, Permits};
use crate::limits::budget::Prefix;

use sekisho_certs::lock;

/// Permits of one backend, by its owner.
#[derive(Debug)]
pub(in crate::upstream) enum PermitsOfOwner {
    /// Permits of one tenant.
    Tenant(Arc<Permits>),
    /// Permits of the operator's backend, by the hash of the tenant whose host `[site]`
    /// answers for.
    Operator(ByTenant),
}

/// Permits by tenant, as long as they are in use.
#[derive(Debug)]
pub(in crate::upstream) struct ByTenant {
    bounds: Bounds,
    known: Mutex<Known>,
}

impl PermitsOfOwner {
    pub(in crate::upstream) fn new(bounds: Bounds, is_tenants: bool) -> Self {
        match is_tenants {
            true => Self::Tenant(Permits::new(bounds)),
            false => Self::Operator(ByTenant {
                bounds,
                known: Mutex::default(),
            }),
        }
    }

    /// Returns whether a tenant's request would get a permit at once.
    pub(in crate::upstream) fn has_room(&self, tenant: u64, client: Prefix) -> bool {
        match self {
            Self::Tenant(permits) => permits.has_room(client),
            Self::Operator(permits) => {
                let known = lock(&permits.known).get(&tenant).and_then(Weak::upgrade);
                known.is_none_or(|permits| permits.has_room(client))
            }
        }
    }

    /// Returns the permits that requests of a tenant take. `tenant` is its hash.
    pub(in crate::upstream) fn of(&self, tenant: u64) -> Arc<Permits> {
        match self {
            Self::Tenant(permits) => Arc::clone(permits),
            Self::Operator(permits) => permits.of(tenant),
        }
    }
}

impl ByTenant {
    fn of(&self, tenant: u64) -> Arc<Permits> {
        let mut known = lock(&self.known);
        if let Some(permits) = known.get(&tenant).and_then(Weak::upgrade) {
            return permits;
        }
        if known.len() == known.capacity() {
            // As many inserts as entries are in use pay for the sweep.
            known.retain(|_, permits| permits.strong_count() > 0);
            let used = known.len();
            known.reserve(used.max(LEAST));
        }
        let permits = Permits::new(self.bounds);
        known.insert(tenant, Arc::downgrade(&permits));
        permits
    }
}

type Known = HashMap<u64, Weak<Permits>, RandomState>;

/// Entries that are kept before unused ones are removed.
const LEAST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        connections: 1,
        waiting: 0,
    };

    #[test]
    fn tenants_of_the_operators_hosts_have_permits_of_their_own() {
        let permits = PermitsOfOwner::new(BOUNDS, false);
        let first = permits.of(1);
        assert!(Arc::ptr_eq(&first, &permits.of(1)));
        assert!(!Arc::ptr_eq(&first, &permits.of(2)));
        let own = PermitsOfOwner::new(BOUNDS, true);
        assert!(Arc::ptr_eq(&own.of(1), &own.of(2)));
    }

    #[test]
    fn tenants_without_a_request_are_forgotten() {
        let PermitsOfOwner::Operator(permits) = PermitsOfOwner::new(BOUNDS, false) else {
            unreachable!("made for the operator");
        };
        let held = permits.of(0);
        for tenant in 1..100_000 {
            drop(permits.of(tenant));
        }
        assert!(lock(&permits.known).len() < 100);
        assert!(Arc::ptr_eq(&held, &permits.of(0)));
    }
}
