#![allow(clippy::unwrap_used)]

use std::sync::{OnceLock, Weak};

use super::*;
use crate::record::HostRecord;

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

fn served<V>(pattern: &str, value: V) -> Arc<Served<V>> {
    let record = HostRecord::new(HostPattern::parse(pattern).unwrap());
    let credentials = Vec::new();
    let host = Arc::new(LoadedHost {
        record,
        credentials,
    });
    let state = EntryState {
        shadowed: AtomicBool::new(true),
        ..EntryState::default()
    };
    Arc::new(Served::new(host, value, 0, state))
}

/// Looks at the cache in the moment in which its record is replaced there.
#[derive(Default)]
struct Witness {
    cache: Weak<Cache<Witness>>,
    alias: Arc<OnceLock<bool>>,
}

impl Drop for Witness {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            let _ = self.alias.set(cache.note("a.w.test").is_some());
        }
    }
}

/// An alias vouches for the wildcard that it was read with. Inserted before
/// that record, it vouched for the older one in its place.
#[test]
fn an_alias_follows_its_record() {
    let cache = Arc::new(Cache::new(1 << 20));
    let alias = Arc::new(OnceLock::new());
    let witness = Witness {
        cache: Arc::downgrade(&cache),
        alias: Arc::clone(&alias),
    };
    cache.insert(&name("b.w.test"), &served("*.w.test", witness));
    cache.insert(&name("a.w.test"), &served("*.w.test", Witness::default()));
    assert_eq!(alias.get(), Some(&false));
    assert!(cache.note("a.w.test").is_some());
}
