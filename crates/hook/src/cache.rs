//! Cache that scripts use for values of their own: `cache:get` and `cache:set`.

use std::sync::Arc;

use foldhash::quality::RandomState;
use quick_cache::Weighter;
use quick_cache::sync::Cache as Part;
use sekisho_certs::cache::{MAX_SHARDS, bounded};
use tokio::time::Instant;

use crate::region::ByWeight;

/// Cache shared by all workers, bounded in bytes. A value that does not fit is not
/// kept: a script must not rely on one.
pub(crate) struct Cache(Part<Arc<str>, Entry, ByWeight, RandomState>);

/// Value that outlives a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bool(bool),
    Number(f64),
    Text(Arc<[u8]>),
}

#[derive(Clone)]
pub(crate) struct Entry {
    value: Value,
    until: Instant,
}

impl Cache {
    pub(crate) fn new(memory: usize) -> Self {
        Self(bounded(ByWeight, memory, USUAL, MAX_SHARDS))
    }

    pub(crate) fn value(&self, key: &str, now: Instant) -> Option<Value> {
        let entry = self.0.get(key)?;
        if now < entry.until {
            return Some(entry.value);
        }
        self.0.remove(key);
        None
    }

    pub(crate) fn set(&self, key: &str, value: Value, until: Instant) {
        self.0.insert(key.into(), Entry { value, until });
    }

    pub(crate) fn remove(&self, key: &str) {
        self.0.remove(key);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.0.weight()
    }
}

impl Weighter<Arc<str>, Entry> for ByWeight {
    fn weight(&self, key: &Arc<str>, entry: &Entry) -> u64 {
        let text = match &entry.value {
            Value::Text(text) => text.len(),
            Value::Bool(_) | Value::Number(_) => 0,
        };
        (PER_ENTRY + key.len() + text) as u64
    }
}

const USUAL: usize = PER_ENTRY + 64;
/// Bytes of an entry without key and text.
const PER_ENTRY: usize = 130;
