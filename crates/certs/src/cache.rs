//! Memory cache of answers, bounded in bytes and shared by all workers.
//!
//! Two regions, both scan-resistant (S3-FIFO): records by pattern, and a small
//! one of notes by name. A note is an absence (negative cache), also where issuance
//! failed, or an alias of a wildcard that not every name below it may use.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::quality::RandomState;
use quick_cache::sync::{Cache as Region, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::host::{HostName, HostPattern};
use crate::loaded::LoadedHost;
pub use note::Absence;
pub(crate) use note::{Note, Tried, UNSERVED};
use uses::Uses;

mod hottest;
mod note;
mod uses;

/// Value that the server made of a record.
#[derive(Debug)]
pub struct Published<V> {
    /// The value.
    pub value: V,
    /// Bytes of memory that the value adds to those of the record.
    pub weight: usize,
}

/// Record as it is served, with the value that the server made of it.
#[derive(Debug)]
pub struct Served<V> {
    host: Arc<LoadedHost>,
    value: V,
    weight: u64,
    pub(crate) state: EntryState,
}

/// State of a cached record that changes while the record does not.
#[derive(Debug, Default)]
pub(crate) struct EntryState {
    /// Tells whether exact records exist, or may exist, below this wildcard.
    pub(crate) shadowed: AtomicBool,
    /// Epoch in which the record was read; in another one it is read again.
    pub(crate) epoch: u64,
    /// When the record is read again, microseconds of the lookup's time.
    pub(crate) fresh_until: AtomicU64,
    /// Until when the record is served although it is stale, because a read
    /// has just failed; 0 if none has.
    pub(crate) retry_at: AtomicU64,
    /// Set while a load in the background refreshes the record.
    pub(crate) refreshing: AtomicBool,
    pub(crate) uses: Uses,
    /// Name that a wildcard was read for; none for an exact record.
    pub(crate) read_for: Option<HostName>,
}

impl<V> Served<V> {
    pub(crate) fn new(
        host: Arc<LoadedHost>,
        value: V,
        value_weight: usize,
        state: EntryState,
    ) -> Self {
        let credentials = host.credentials.iter().map(|one| one.weight());
        let credentials: usize = credentials.sum();
        let record = &host.record;
        let sites = record.site.iter().chain(&record.suspended);
        let sites: usize = sites.map(|site| site.json.len()).sum();
        let client_ca = record.tls.client_ca.as_ref();
        let client_ca = client_ca.map_or(0, |ca| PER_CLIENT_CA + ca.pem().len());
        let read_for = state.read_for.as_ref().map_or(0, |it| it.as_str().len());
        let names = 2 * record.pattern.as_str().len() + read_for;
        let text = names + record.tenant.as_str().len() + sites;
        let weight = (PER_RECORD + text + client_ca + credentials + value_weight) as u64;
        Self {
            host,
            value,
            weight,
            state,
        }
    }

    /// Makes what is served of a host that no store holds. It stands in no lookup's
    /// cache: its holder decides how long it is served.
    pub fn own(host: Arc<LoadedHost>, published: Published<V>) -> Self {
        let state = EntryState {
            shadowed: AtomicBool::new(true),
            ..EntryState::default()
        };
        Self::new(host, published.value, published.weight, state)
    }

    /// Returns the record and its credentials.
    pub fn host(&self) -> &LoadedHost {
        &self.host
    }

    /// Returns whether the record has a credential. Handshakes get no other record.
    pub fn is_certified(&self) -> bool {
        !self.host.credentials.is_empty()
    }

    /// Returns the value that the server made of them.
    pub fn value(&self) -> &V {
        &self.value
    }

    /// Returns the bytes of memory that the record is charged with.
    pub fn weight(&self) -> u64 {
        self.weight
    }
}

/// Both regions.
pub(crate) struct Cache<V> {
    records: Region<Box<str>, Arc<Served<V>>, ByWeight, RandomState>,
    notes: Region<Box<str>, Note, ByWeight, RandomState>,
}

impl<V> Cache<V> {
    /// Divides `memory` bytes: a sixteenth is for notes.
    pub(crate) fn new(memory: usize) -> Self {
        Self {
            records: records(ByWeight, memory),
            notes: bounded(ByWeight, memory / 16, USUAL_NOTE, MAX_SHARDS),
        }
    }

    /// Returns the record of `name`, if it has a credential.
    pub(crate) fn exact(&self, name: &str) -> Option<Arc<Served<V>>> {
        self.exact_any(name).filter(|served| served.is_certified())
    }

    /// Returns the wildcard one label above `name`, if it has a credential.
    pub(crate) fn wildcard(&self, name: &str) -> Option<Arc<Served<V>>> {
        self.wildcard_any(name)
            .filter(|served| served.is_certified())
    }

    /// Returns the record of `name`, for plain HTTP too.
    pub(crate) fn exact_any(&self, name: &str) -> Option<Arc<Served<V>>> {
        self.records.get(name)
    }

    /// Returns the wildcard one label above `name`, for plain HTTP too.
    pub(crate) fn wildcard_any(&self, name: &str) -> Option<Arc<Served<V>>> {
        self.records.get(wildcard_key(name)?)
    }

    pub(crate) fn note(&self, name: &str) -> Option<Note> {
        self.notes.get(name)
    }

    /// Caches an answer with a credential. Returns whether it replaced another one.
    pub(crate) fn insert(&self, name: &HostName, served: &Arc<Served<V>>) -> bool {
        // The record first: an alias vouches for the record that is cached.
        let replaced = self.insert_record(name, served);
        let is_wildcard = served.host.record.pattern.wildcard_parent().is_some();
        if is_wildcard && served.state.shadowed.load(Ordering::Relaxed) {
            let alias = Note::Alias {
                epoch: served.state.epoch,
                fresh_until: served.state.fresh_until.load(Ordering::Relaxed),
                version: served.host.record.version,
            };
            self.notes.insert(name.as_str().into(), alias);
        } else {
            self.notes.remove(name.as_str());
        }
        replaced
    }

    /// Caches the record that answers `name`, and leaves its note: one without a
    /// credential is an absence for handshakes. Returns whether it replaced another one.
    pub(crate) fn insert_record(&self, name: &HostName, served: &Arc<Served<V>>) -> bool {
        let pattern = &served.host.record.pattern;
        let old = self.records.peek(record_key(pattern));
        let mut replaced = false;
        if let Some(old) = old {
            served.state.uses.take_over(&old.state.uses);
            replaced = !old.host.is_same(&served.host);
        }
        self.records
            .insert(record_key(pattern).into(), Arc::clone(served));
        if pattern.wildcard_parent().is_some() {
            replaced |= self.records.remove(name.as_str()).is_some();
        }
        replaced
    }

    /// Caches an absence for `reason`, and drops the records that contradict it. Returns
    /// whether there were any.
    pub(crate) fn insert_absence(&self, name: &HostName, reason: Absence, note: Note) -> bool {
        self.notes.insert(name.as_str().into(), note);
        let contradicts = |served: &Arc<Served<V>>| match reason {
            Absence::NoHost | Absence::Disabled => true,
            // Plain HTTP is served by it until another record takes its place.
            Absence::NoCredential => served.is_certified(),
        };
        let mut dropped = self.records.remove_if(name.as_str(), contradicts).is_some();
        // The store has no wildcard above the name either.
        if reason == Absence::NoHost
            && let Some(above) = wildcard_key(name.as_str())
        {
            dropped |= self.records.remove(above).is_some();
        }
        dropped
    }

    /// Applies changes of records, given by their numbers in the log of `epoch`.
    /// Each drops the older record of its own pattern; an exact one shadows the
    /// wildcard above it, a wildcard voids what was noted one label below it.
    pub(crate) fn changed<'a>(
        &self,
        epoch: u64,
        changes: impl Iterator<Item = (u64, &'a HostPattern)>,
    ) {
        let mut parents = HashSet::new();
        for (number, pattern) in changes {
            // A load that read the change may have ended before it arrived.
            let older = |served: &Arc<Served<V>>| {
                served.state.epoch < epoch || served.host.record.version < number
            };
            self.records.remove_if(record_key(pattern), older);
            if let Some(parent) = pattern.wildcard_parent() {
                parents.insert(parent);
                continue;
            }
            self.notes.remove(pattern.as_str());
            let above = wildcard_key(pattern.as_str()).and_then(|key| self.records.peek(key));
            if let Some(above) = above {
                above.state.shadowed.store(true, Ordering::Relaxed);
            }
        }
        if !parents.is_empty() {
            // All wildcards of the page share one pass over the small region.
            self.notes.retain(|name, _| {
                name.split_once('.')
                    .is_none_or(|(_, parent)| !parents.contains(parent))
            });
        }
    }

    /// Drops all entries and bounds the cache to `memory` bytes.
    pub(crate) fn shrink(&self, memory: usize) {
        let notes = memory / 16;
        // Entries are dropped one by one: a shard that is emptied at once stays locked meanwhile.
        self.records.drain().for_each(drop);
        self.notes.drain().for_each(drop);
        self.records.set_capacity((memory - notes) as u64);
        self.notes.set_capacity(notes as u64);
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            records: self.records.len(),
            notes: self.notes.len(),
            bytes: self.records.weight() + self.notes.weight(),
            capacity: self.records.capacity() + self.notes.capacity(),
        }
    }
}

/// Size of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Cached records.
    pub records: usize,
    /// Cached absences and aliases.
    pub notes: usize,
    /// Bytes that both are charged with.
    pub bytes: u64,
    /// Bound of `bytes`.
    pub capacity: u64,
}

#[derive(Clone, Debug)]
struct ByWeight;

impl<V> Weighter<Box<str>, Arc<Served<V>>> for ByWeight {
    fn weight(&self, _: &Box<str>, served: &Arc<Served<V>>) -> u64 {
        served.weight
    }
}

impl Weighter<Box<str>, Note> for ByWeight {
    fn weight(&self, name: &Box<str>, _: &Note) -> u64 {
        (PER_NOTE + name.len()) as u64
    }
}

/// Makes the region of records of a cache with `memory` bytes.
pub fn records<K: Eq + Hash, T: Clone, W: Weighter<K, T> + Clone>(
    weighter: W,
    memory: usize,
) -> Region<K, T, W, RandomState> {
    let capacity = memory - memory / 16;
    let most_shards = (capacity / RECORD_SHARD).clamp(1, MAX_SHARDS);
    bounded(weighter, capacity, USUAL_RECORD, most_shards)
}

/// Makes a scan-resistant cache (S3-FIFO) that is bounded by weight. `usual` is the weight of
/// most entries.
///
/// # Panics
/// Never: capacity and estimate are given.
pub fn bounded<
    K: Eq + Hash,
    T: Clone,
    W: Weighter<K, T> + Clone,
    S: BuildHasher + Clone + Default,
>(
    weighter: W,
    capacity: usize,
    usual: usize,
    most_shards: usize,
) -> Region<K, T, W, S> {
    // quick_cache divides the capacity evenly over the shards and refuses an
    // entry heavier than its shard: a small memory has fewer.
    let shards = (capacity / MIN_SHARD).clamp(1, most_shards);
    let options = OptionsBuilder::new()
        .shards(shards)
        .estimated_items_capacity((capacity / usual).max(1))
        .weight_capacity(capacity as u64)
        .build()
        .expect("capacity and estimate are given");
    let lifecycle = DefaultLifecycle::default();
    Region::with_options(options, weighter, S::default(), lifecycle)
}

/// Returns the key of a record. `*.b` is cached under `.b`: that text is a part
/// of every name below, so that a lookup allocates nothing.
fn record_key(pattern: &HostPattern) -> &str {
    match pattern.wildcard_parent() {
        None => pattern.as_str(),
        Some(_) => &pattern.as_str()[1..],
    }
}

fn wildcard_key(name: &str) -> Option<&str> {
    name.find('.').map(|dot| &name[dot..])
}

/// Bytes of a shard of records: room for the heaviest, with a site of 256 KiB, its 1,000
/// redirects as rules, and a chain of 64 KiB for each key type.
const RECORD_SHARD: usize = 1024 * 1024;
/// Bytes of a shard of lighter entries.
const MIN_SHARD: usize = 512 * 1024;
/// More shards than the threads that write at once.
pub const MAX_SHARDS: usize = 32;
/// Bytes of a record with one ECDSA credential and its chain of two.
const USUAL_RECORD: usize = 4096;
const USUAL_NOTE: usize = PER_NOTE + 24;
// Measured by `tests/weight.rs` with the allocator's own statistics. A note is
// small, and the fill of its table moves the figure by a fifth: this is the mean.
const PER_RECORD: usize = 398;
const PER_NOTE: usize = 111;
/// Bytes of a client CA without its PEM.
const PER_CLIENT_CA: usize = 64;

#[cfg(test)]
mod tests;
