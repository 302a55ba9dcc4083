//! Shares of tenants in what this process does at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sekisho_certs::Tenant;
use tokio::sync::OwnedSemaphorePermit;

/// Bounded number of places, of which no tenant has more than its share. Names without
/// a record share those of one tenant: anybody can make up such names.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    places: usize,
    share: usize,
    taken: Arc<Mutex<HashMap<Option<Tenant>, usize>>>,
}

/// Right to have an order in flight.
#[derive(Debug)]
pub(super) struct Permit {
    pub(super) _order: OwnedSemaphorePermit,
    /// Of a first visitor.
    pub(super) _share: Option<Place>,
}

/// Place of a tenant, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    shares: Shares,
    tenant: Option<Tenant>,
}

impl Shares {
    pub(super) fn new(places: usize, share: usize) -> Self {
        Self {
            places,
            share,
            taken: Arc::default(),
        }
    }

    /// Takes a place; none if all are taken, or all of the tenant's share.
    pub(super) fn take(&self, tenant: Option<&Tenant>) -> Option<Place> {
        let mut taken = self.taken();
        if taken.values().sum::<usize>() >= self.places {
            return None;
        }
        let own = taken.entry(tenant.cloned()).or_default();
        if *own >= self.share {
            return None;
        }
        *own += 1;
        Some(Place {
            shares: self.clone(),
            tenant: tenant.cloned(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<Option<Tenant>, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        if let Some(own) = taken.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_tenant_takes_the_places_of_others() {
        let shares = Shares::new(3, 2);
        let [many, few] = ["many", "few"].map(|name| Tenant::parse(name).unwrap());
        let first = shares.take(Some(&many)).unwrap();
        let _second = shares.take(Some(&many)).unwrap();
        assert!(shares.take(Some(&many)).is_none());
        let _other = shares.take(Some(&few)).unwrap();
        assert!(shares.take(None).is_none(), "all are taken");
        drop(first);
        assert!(shares.take(None).is_some());
        assert_eq!(shares.taken().len(), 2, "who has none is forgotten");
    }
}
