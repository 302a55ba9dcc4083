//! What is remembered, in a bounded number of bytes, shared by all workers.
//!
//! Two regions, both scan-resistant (S3-FIFO): records under their patterns;
//! and, small, what single names told: absences, and aliases of a wildcard
//! whose exact names below it are not all known.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use foldhash::quality::RandomState;
use quick_cache::sync::{Cache as Region, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};

use crate::host::{HostName, HostPattern};
use crate::loaded::LoadedHost;

/// A record as it is served, with what the server made of it.
#[derive(Debug)]
pub struct Served<V> {
    host: Arc<LoadedHost>,
    value: V,
    weight: u64,
    pub(crate) state: EntryState,
}

/// What changes about a cached record while it stays the same.
#[derive(Debug)]
pub(crate) struct EntryState {
    /// For a wildcard: exact records stand below it, or may.
    pub(crate) shadowed: AtomicBool,
    /// In which epoch it was read; another one asks for a new read.
    pub(crate) epoch: u64,
    /// Until when it needs no second look, microseconds of the lookup's time.
    pub(crate) fresh_until: AtomicU64,
    /// Until when it is served without a look although it needs one, since
    /// the store has just failed; 0 if it has not.
    pub(crate) retry_at: AtomicU64,
    /// Set while one load in the background refreshes it.
    pub(crate) refreshing: AtomicBool,
}

impl<V> Served<V> {
    pub(crate) fn new(
        host: Arc<LoadedHost>,
        value: V,
        value_weight: usize,
        state: EntryState,
    ) -> Self {
        let credentials: usize = host
            .credentials
            .iter()
            .map(|credential| credential.weight())
            .sum();
        let record = &host.record;
        let site = record.site.as_ref().map_or(0, |site| site.json.len());
        let text = 2 * record.pattern.as_str().len() + record.tenant.as_str().len() + site;
        let weight = (PER_RECORD + text + credentials + value_weight) as u64;
        Self {
            host,
            value,
            weight,
            state,
        }
    }

    /// The record and its credentials.
    pub fn host(&self) -> &LoadedHost {
        &self.host
    }

    /// What the server made of them.
    pub fn value(&self) -> &V {
        &self.value
    }

    /// Bytes of memory that it is charged with.
    pub fn weight(&self) -> u64 {
        self.weight
    }
}

/// What a single name told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    /// Nothing answers, for this reason.
    Absent {
        reason: Absence,
        epoch: u64,
        fresh_until: u64,
    },
    /// The wildcard above answers, and no exact record stands here.
    Alias { epoch: u64, fresh_until: u64 },
}

/// Why a name is not served although the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Absence {
    /// Neither the name nor a wildcard above it is there.
    NoHost,
    /// The record refers to no credential.
    NoCredential,
    /// The operator switched the host off.
    Disabled,
}

/// The two regions.
pub(crate) struct Cache<V> {
    records: Region<Box<str>, Arc<Served<V>>, ByWeight, RandomState>,
    notes: Region<Box<str>, Note, ByWeight, RandomState>,
}

impl<V> Cache<V> {
    /// Divides `memory` bytes: one part in sixteen for notes.
    pub(crate) fn new(memory: usize) -> Self {
        let notes = memory / 16;
        Self {
            records: region(memory - notes, USUAL_RECORD),
            notes: region(notes, USUAL_NOTE),
        }
    }

    pub(crate) fn exact(&self, name: &str) -> Option<Arc<Served<V>>> {
        self.records.get(name)
    }

    /// The wildcard one label above `name`.
    pub(crate) fn wildcard(&self, name: &str) -> Option<Arc<Served<V>>> {
        self.records.get(wildcard_key(name)?)
    }

    pub(crate) fn note(&self, name: &str) -> Option<Note> {
        self.notes.get(name)
    }

    /// Remembers an answer; says whether something else was remembered before.
    pub(crate) fn insert(&self, name: &HostName, served: &Arc<Served<V>>) -> bool {
        let pattern = &served.host.record.pattern;
        let old = self.records.peek(record_key(pattern));
        let mut moved = old.is_some_and(|old| !old.host.is_same(&served.host));
        // The record first: an alias vouches for the record that stands there.
        self.records
            .insert(record_key(pattern).into(), Arc::clone(served));
        let is_wildcard = pattern.wildcard_parent().is_some();
        if is_wildcard {
            moved |= self.records.remove(name.as_str()).is_some();
        }
        if is_wildcard && served.state.shadowed.load(Ordering::Relaxed) {
            let alias = Note::Alias {
                epoch: served.state.epoch,
                fresh_until: served.state.fresh_until.load(Ordering::Relaxed),
            };
            self.notes.insert(name.as_str().into(), alias);
        } else {
            self.notes.remove(name.as_str());
        }
        moved
    }

    /// Remembers that nothing answers, and forgets what did.
    pub(crate) fn insert_absence(&self, name: &HostName, note: Note) -> bool {
        self.notes.insert(name.as_str().into(), note);
        let mut moved = self.records.remove(name.as_str()).is_some();
        // Without any host there is no wildcard above it either.
        if let Note::Absent {
            reason: Absence::NoHost,
            ..
        } = note
            && let Some(above) = wildcard_key(name.as_str())
        {
            moved |= self.records.remove(above).is_some();
        }
        moved
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
            // One pass over the small region, however many wildcards changed.
            self.notes.retain(|name, _| {
                name.split_once('.')
                    .is_none_or(|(_, parent)| !parents.contains(parent))
            });
        }
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

/// How full the cache is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Cached records.
    pub records: usize,
    /// Cached absences and aliases.
    pub notes: usize,
    /// What all of it is charged with.
    pub bytes: u64,
    /// The bound of that.
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

fn region<T: Clone>(capacity: usize, usual: usize) -> Region<Box<str>, T, ByWeight, RandomState>
where
    ByWeight: Weighter<Box<str>, T>,
{
    // The region divides its capacity evenly over its shards and refuses what
    // is heavier than one: fewer shards for a small memory.
    let shards = (capacity / MIN_SHARD).clamp(1, MAX_SHARDS);
    let options = OptionsBuilder::new()
        .shards(shards)
        .estimated_items_capacity(capacity / usual)
        .weight_capacity(capacity as u64)
        .build()
        .expect("capacity and estimate are given");
    Region::with_options(
        options,
        ByWeight,
        RandomState::default(),
        DefaultLifecycle::default(),
    )
}

/// Wildcards stand under `.b` for `*.b`: that text is a piece of every name
/// below it, so looking one up builds nothing.
fn record_key(pattern: &HostPattern) -> &str {
    match pattern.wildcard_parent() {
        None => pattern.as_str(),
        Some(_) => &pattern.as_str()[1..],
    }
}

fn wildcard_key(name: &str) -> Option<&str> {
    name.find('.').map(|dot| &name[dot..])
}

/// The heaviest record (a chain of 64 KiB per key type) fits a shard.
const MIN_SHARD: usize = 512 * 1024;
const MAX_SHARDS: usize = 32;
/// A record with one ECDSA credential and its chain of two.
const USUAL_RECORD: usize = 4096;
const USUAL_NOTE: usize = PER_NOTE + 24;
// What `tests/weight.rs` measures with the allocator's own statistics. A note
// is small, so how full the table happens to be moves it by a fifth: charged is
// the mean.
const PER_RECORD: usize = 310;
const PER_NOTE: usize = 100;

#[cfg(test)]
mod tests;
