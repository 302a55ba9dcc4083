//! Places of the process that tenants share: each has fewer than are left.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;

/// Bounded number of places. A tenant has fewer than are left: it takes none that
/// another may need. `K` names a tenant.
#[derive(Debug)]
pub(super) struct Places<K> {
    most: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    by_tenant: HashMap<K, usize, RandomState>,
}

/// Place of a tenant; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place<K: Eq + Hash> {
    places: Arc<Places<K>>,
    tenant: K,
}

impl<K: Clone + Eq + Hash> Places<K> {
    pub(super) fn new(most: usize) -> Arc<Self> {
        let taken = Taken {
            all: 0,
            by_tenant: HashMap::default(),
        };
        Arc::new(Self {
            most,
            taken: Mutex::new(taken),
        })
    }

    /// Takes a place, if the tenant may have one more.
    pub(super) fn take(places: &Arc<Self>, tenant: &K) -> Option<Place<K>> {
        let mut taken = places.lock();
        let own = taken.by_tenant.get(tenant).copied().unwrap_or(0);
        if own >= places.most.saturating_sub(taken.all) {
            return None;
        }
        taken.all += 1;
        taken.by_tenant.insert(tenant.clone(), own + 1);
        drop(taken);
        Some(Place {
            places: Arc::clone(places),
            tenant: tenant.clone(),
        })
    }
}

impl<K> Places<K> {
    /// Returns how many are taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        taken.all -= 1;
        if let Some(own) = taken.by_tenant.get_mut(&self.tenant) {
            *own -= 1;
            if *own == 0 {
                taken.by_tenant.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_leaves_others_as_many_as_it_has() {
        let places = Places::new(8);
        let take = |tenant| std::iter::from_fn(|| Places::take(&places, &tenant)).collect();
        let first: Vec<_> = take(1);
        let second: Vec<_> = take(2);
        assert_eq!((first.len(), second.len()), (4, 2));
        drop((first, second));
        assert_eq!(places.lock().all, 0);
        assert!(places.lock().by_tenant.is_empty());
    }
}
