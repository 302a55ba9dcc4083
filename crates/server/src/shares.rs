//! Semaphores by key, as long as they are in use.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use foldhash::quality::RandomState;
use tokio::sync::Semaphore;

/// Semaphores by key, as long as they are in use.
#[derive(Debug)]
pub(crate) struct Shares<K>(Mutex<Known<K>>);

#[derive(Debug)]
struct Known<K> {
    by_key: HashMap<K, Weak<Semaphore>, RandomState>,
    /// Number of entries at which unused ones are removed.
    sweep_at: usize,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self(Mutex::new(Known {
            by_key: HashMap::default(),
            sweep_at: SWEEP_AT,
        }))
    }
}

impl<K: Eq + Hash> Shares<K> {
    /// Returns the semaphore of a key. One that is made has `size` permits.
    pub(crate) fn share<Q>(&self, key: &Q, size: usize) -> Arc<Semaphore>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = known.by_key.get(key).and_then(Weak::upgrade) {
            return share;
        }
        if known.by_key.len() >= known.sweep_at {
            known.by_key.retain(|_, share| share.strong_count() > 0);
            // Twice the entries in use: as many inserts pay for the sweep.
            known.sweep_at = SWEEP_AT.max(2 * known.by_key.len());
        }
        let share = Arc::new(Semaphore::new(size));
        known.by_key.insert(key.to_owned(), Arc::downgrade(&share));
        share
    }
}

/// Entries that are kept before unused ones are removed, some 100 KiB.
const SWEEP_AT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_without_use_are_forgotten() {
        let shares = Shares::<String>::default();
        let kept = shares.share("kept", 1);
        let permit = kept.try_acquire().unwrap();
        for n in 0..5 * SWEEP_AT {
            shares.share(n.to_string().as_str(), 1);
        }
        let known = shares.0.lock().unwrap().by_key.len();
        assert!(known <= 2 * SWEEP_AT, "{known}");
        assert!(shares.share("kept", 1).try_acquire().is_err());
        drop(permit);
    }

    #[test]
    fn a_permit_keeps_its_share() {
        let shares = Shares::<String>::default();
        let permit = shares.share("kept", 1).try_acquire_owned().unwrap();
        for n in 0..5 * SWEEP_AT {
            shares.share(n.to_string().as_str(), 1);
        }
        assert!(shares.share("kept", 1).try_acquire().is_err());
        drop(permit);
        assert!(shares.share("kept", 1).try_acquire().is_ok());
    }
}
