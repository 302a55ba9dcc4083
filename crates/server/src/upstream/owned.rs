//! Tables of which one owner takes at most a sixteenth.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex};

use foldhash::fast::RandomState;
use foldhash::quality;
use quick_cache::sync::Cache;
use quick_cache::{Equivalent, Lifecycle, OptionsBuilder, Weighter};

use sekisho_certs::lock;

/// Owner of state about upstream servers: [`OPERATOR`] for the hosts that `[site]`
/// answers for, else the hash of a tenant.
pub(super) type Owner = u64;

/// Owner of what the hosts of `[site]` share.
pub(super) const OPERATOR: Owner = 0;

/// Values by owner and key, bounded by their weight. Where the table is full, values that
/// nobody holds make room. Where an owner has its part, its oldest values do: it takes no
/// room from others.
pub(super) struct Owned<K, V> {
    cache: Table<K, V>,
    parts: Parts<K>,
}

type Table<K, V> = Cache<(Owner, K), Arc<V>, Parts<K>, RandomState, Parts<K>>;

/// Key of the table that is not made for a look.
#[derive(Hash)]
struct Borrowed<'a, Q>(Owner, &'a Q);

/// Keys in the table, by owner.
#[derive(Clone)]
struct Parts<K> {
    by_owner: Arc<Mutex<ByOwner<K>>>,
    /// Returns the weight of a value, by its key.
    weigh: fn(&K) -> u64,
    /// Most weight of one owner's values.
    most: u64,
}

type ByOwner<K> = HashMap<Owner, Part<K>, quality::RandomState>;

/// Keys of one owner, the oldest first, and the weight of their values.
struct Part<K> {
    weight: u64,
    keys: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V> Owned<K, V> {
    /// Makes a table of some `items` values, which weigh `most` at most together.
    pub(super) fn new(items: usize, most: u64, weigh: fn(&K) -> u64) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(items)
            .weight_capacity(most)
            .build()
            .expect("capacity and estimate are given");
        let parts = Parts {
            by_owner: Arc::default(),
            weigh,
            most: most / OWNERS,
        };
        let hasher = RandomState::default();
        Self {
            cache: Cache::with_options(options, parts.clone(), hasher, parts.clone()),
            parts,
        }
    }

    pub(super) fn get<Q: Hash + Equivalent<K>>(&self, owner: Owner, key: &Q) -> Option<Arc<V>> {
        self.cache.get(&Borrowed(owner, key))
    }

    /// Returns the value of a key; makes it if there is none.
    ///
    /// # Errors
    /// Errors of `make`.
    pub(super) fn get_or_make<E>(
        &self,
        owner: Owner,
        key: K,
        make: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<Arc<V>, E> {
        let mut oldest = Vec::new();
        let key = (owner, key);
        let value = self.cache.get_or_insert_with(&key, || {
            let value = make(&key.1)?;
            oldest = self.parts.add(&key);
            Ok(Arc::new(value))
        })?;
        for key in oldest {
            self.cache.remove(&(owner, key));
        }
        Ok(value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }
}

impl<K: Clone + Eq> Parts<K> {
    /// Adds a key. Returns the oldest keys of its owner, which make room for it.
    fn add(&self, (owner, key): &(Owner, K)) -> Vec<K> {
        let weight = (self.weigh)(key);
        let mut by_owner = lock(&self.by_owner);
        let part = by_owner.entry(*owner).or_insert_with(|| Part {
            weight: 0,
            keys: VecDeque::new(),
        });
        let mut oldest = Vec::new();
        while part.weight + weight > self.most
            && let Some(key) = part.keys.pop_front()
        {
            part.weight -= (self.weigh)(&key);
            oldest.push(key);
        }
        part.weight += weight;
        part.keys.push_back(key.clone());
        oldest
    }

    /// Removes a key that made room for another owner's.
    fn remove(&self, (owner, key): &(Owner, K)) {
        let mut by_owner = lock(&self.by_owner);
        let Some(part) = by_owner.get_mut(owner) else {
            return;
        };
        // An old one, mostly.
        let index = part.keys.iter().position(|other| other == key);
        if let Some(key) = index.and_then(|index| part.keys.remove(index)) {
            part.weight -= (self.weigh)(&key);
        }
        if part.keys.is_empty() {
            by_owner.remove(owner);
        }
    }
}

impl<K, V> Weighter<(Owner, K), Arc<V>> for Parts<K> {
    fn weight(&self, (_, key): &(Owner, K), _: &Arc<V>) -> u64 {
        (self.weigh)(key)
    }
}

impl<K: Clone + Eq, V> Lifecycle<(Owner, K), Arc<V>> for Parts<K> {
    type RequestState = ();

    fn is_pinned(&self, _: &(Owner, K), value: &Arc<V>) -> bool {
        // Each request in flight holds its server.
        Arc::strong_count(value) > 1
    }

    fn on_evict(&self, (): &mut (), key: (Owner, K), _: Arc<V>) {
        self.remove(&key);
    }
}

impl<K, Q: Equivalent<K>> Equivalent<(Owner, K)> for Borrowed<'_, Q> {
    fn equivalent(&self, (owner, key): &(Owner, K)) -> bool {
        self.0 == *owner && self.1.equivalent(key)
    }
}

/// Part of a table that one owner may have: one of so many.
const OWNERS: u64 = 16;
/// Enough that workers seldom wait for each other.
const SHARDS: usize = 4;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn table(most: u64) -> Owned<u64, u64> {
        Owned::new(1024, most, |_| 1)
    }

    fn make(table: &Owned<u64, u64>, owner: Owner, key: u64) -> Arc<u64> {
        let made = table.get_or_make(owner, key, |key| Ok::<_, Infallible>(*key));
        made.unwrap_or_else(|never| match never {})
    }

    #[test]
    fn an_owner_with_many_keys_displaces_its_own_alone() {
        let table = table(1024);
        make(&table, 1, 7);
        for key in 0..10_000 {
            make(&table, 2, key);
        }
        assert!(table.get(1, &7).is_some());
        assert!(table.get(2, &0).is_none());
        assert!((9_936..10_000).all(|key| table.get(2, &key).is_some()));
        assert_eq!(table.len(), 65);
    }

    #[test]
    fn many_owners_are_bounded_and_forgotten() {
        let table = table(1024);
        let held = make(&table, 1, 7);
        for owner in 2..20_000 {
            make(&table, owner, 7);
        }
        assert!(table.len() <= 1024);
        assert_eq!(lock(&table.parts.by_owner).len(), table.len());
        assert!(Arc::ptr_eq(&held, &make(&table, 1, 7)));
    }

    #[test]
    fn a_value_heavier_than_a_part_displaces_its_owners_alone() {
        let table: Owned<u64, u64> = Owned::new(64, 16_000, |key| *key);
        let others = make(&table, 2, 5);
        make(&table, 1, 5);
        make(&table, 1, 1_001);
        assert!(table.get(1, &5).is_none() && table.get(1, &1_001).is_some());
        make(&table, 1, 6);
        assert!(table.get(1, &1_001).is_none());
        assert_eq!(lock(&table.parts.by_owner)[&1].weight, 6);
        assert!(Arc::ptr_eq(&others, &make(&table, 2, 5)));
    }

    #[test]
    fn a_value_that_can_not_be_made_is_not_kept() {
        let table = table(1024);
        assert!(table.get_or_make(1, 7, |_| Err(())).is_err());
        assert!(lock(&table.parts.by_owner).is_empty());
        assert_eq!(table.len(), 0);
    }
}
