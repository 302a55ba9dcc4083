//! Small files in memory.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use foldhash::fast::RandomState;
use quick_cache::sync::{Cache as Quick, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};
use sekisho_certs::metrics::Writer;
use tokio::time::Instant;

use super::load::{Identity, SmallFile};

/// What was found at paths, bounded in bytes, resistant to scans.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: Quick<Key, Arc<Entry>, Weigh, RandomState>,
    epoch: Instant,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Cache {
    /// Keeps at most `capacity` bytes; takes none before the first entry.
    pub(crate) fn new(capacity: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .weight_capacity(capacity as u64)
            .estimated_items_capacity(capacity / TYPICAL)
            .build()
            .expect("the capacities are set");
        Self {
            entries: Quick::with_options(
                options,
                Weigh,
                RandomState::default(),
                DefaultLifecycle::default(),
            ),
            epoch: Instant::now(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Milliseconds since the cache was made.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// What was found at a path, and how long ago. Counts.
    pub(crate) fn find(&self, key: &KeyRef<'_>) -> Option<(Arc<Entry>, Age)> {
        let found = self
            .entries
            .get(key)
            .map(|entry| (entry.age(self.now()), entry));
        let served = matches!(found, Some((Age::Fresh | Age::Stale, _)));
        let counter = if served { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found.map(|(age, entry)| (entry, age))
    }

    /// Notes what was found at `checked`.
    pub(crate) fn insert(&self, key: Key, what: What, checked: u64) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            what,
            checked: AtomicU64::new(checked),
            claimed: AtomicBool::new(false),
        });
        self.entries.insert(key, Arc::clone(&entry));
        entry
    }

    /// Forgets a path.
    pub(crate) fn remove(&self, key: &Key) {
        self.entries.remove(key);
    }

    pub(crate) fn stats(&self) -> CacheStats {
        CacheStats {
            entries: self.entries.len() as u64,
            bytes: self.entries.weight(),
            capacity: self.entries.capacity(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

/// What the cache of small files holds, and how often it helped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CacheStats {
    /// Paths.
    pub(crate) entries: u64,
    /// Bytes that they take.
    pub(crate) bytes: u64,
    /// Bytes that they may take.
    pub(crate) capacity: u64,
    /// Requests that were answered from memory.
    pub(crate) hits: u64,
    /// Requests that waited for the disk.
    pub(crate) misses: u64,
}

impl CacheStats {
    /// Writes them as metrics.
    pub(crate) fn write(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.gauge("file_cache_bytes", "Bytes of cached files", &self.bytes)?;
        to.gauge(
            "file_cache_capacity_bytes",
            "Bytes that cached files may take",
            &self.capacity,
        )?;
        to.gauge("file_cache_entries", "Cached paths", &self.entries)?;
        to.counter(
            "file_cache_hits",
            "Requests for files answered from memory",
            &self.hits,
        )?;
        to.counter(
            "file_cache_misses",
            "Requests for files that waited for the disk",
            &self.misses,
        )
    }
}

/// A path of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// The root as the site has it, so that equal sites share what they found.
    pub(crate) root: Arc<str>,
    /// The host's name, empty where the root does not depend on it.
    pub(crate) host: Box<str>,
    /// Below the root.
    pub(crate) path: Box<str>,
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (root, host, path) = (&*self.root, &*self.host, &*self.path);
        KeyRef { root, host, path }.hash(state);
    }
}

/// A key to ask with.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct KeyRef<'a> {
    pub(crate) root: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
}

impl KeyRef<'_> {
    pub(crate) fn to_key(self) -> Key {
        Key {
            root: self.root.into(),
            host: self.host.into(),
            path: self.path.into(),
        }
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        // The path differs most often.
        same(self.path, &key.path) && same(self.host, &key.host) && same(self.root, &key.root)
    }
}

/// Equality that never compares nothing with nothing: glibc's `memcmp` for
/// AVX-512 takes 200 ns for the dangling pointers of two empty texts.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// What was found, and when it was last seen to be so.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) what: What,
    checked: AtomicU64,
    claimed: AtomicBool,
}

impl Entry {
    /// What an unchanged file is known by.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match &self.what {
            What::File(file) => file.identity,
            What::Directory | What::Missing => None,
        }
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.what, What::File(_))
    }

    /// Notes that it was still so at `checked`.
    pub(crate) fn renew(&self, checked: u64) {
        self.checked.fetch_max(checked, Ordering::Relaxed);
    }

    /// The right to check it again, given to one at a time.
    pub(crate) fn claim(self: &Arc<Self>) -> Option<Claim> {
        (!self.claimed.swap(true, Ordering::Acquire)).then(|| Claim(Arc::clone(self)))
    }

    fn age(&self, now: u64) -> Age {
        let age = Duration::from_millis(now.saturating_sub(self.checked.load(Ordering::Relaxed)));
        match self.what {
            _ if age < FRESH => Age::Fresh,
            What::File(_) if age < STALE => Age::Stale,
            _ => Age::Old,
        }
    }
}

/// The right to check an entry again, until it is dropped.
pub(crate) struct Claim(Arc<Entry>);

impl Claim {
    pub(crate) fn entry(&self) -> Arc<Entry> {
        Arc::clone(&self.0)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.claimed.store(false, Ordering::Release);
    }
}

/// How far an entry is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// As it stands.
    Fresh,
    /// As it stands, but somebody should look again.
    Stale,
    /// Not before somebody has looked again.
    Old,
}

/// What stands at a path.
#[derive(Debug)]
pub(crate) enum What {
    File(Box<SmallFile>),
    /// Answered with its own name and a slash.
    Directory,
    Missing,
}

#[derive(Clone, Debug)]
struct Weigh;

impl Weighter<Key, Arc<Entry>> for Weigh {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        let content = match &entry.what {
            What::File(file) => size_of::<SmallFile>() + file.body.len() + HEADERS,
            What::Directory | What::Missing => 0,
        };
        // The root's text counts in full: a million hosts have as many roots.
        let texts = key.root.len() + key.host.len() + key.path.len();
        (texts + content + size_of::<Entry>() + OVERHEAD) as u64
    }
}

/// How long an entry is trusted: a file that was replaced is served anew after
/// a second, and a busy one costs one look per second.
const FRESH: Duration = Duration::from_secs(1);
/// How long after that a request is still answered before somebody has looked.
/// Longer, and a page that nobody asked for during a day would be shown once
/// more as it was a day ago.
const STALE: Duration = Duration::from_secs(10);
/// More than cores that ask at once; a shard of 16 MiB / 8 holds the largest
/// entry 30 times.
const SHARDS: usize = 8;
/// Bytes of a typical entry, to guess how many there will be.
const TYPICAL: usize = 8 << 10;
/// The prebuilt headers: a table of eight and the values that are no statics.
const HEADERS: usize = 1100;
/// The cache's own record, the counters of the `Arc`s, and what the allocator
/// rounds up.
const OVERHEAD: usize = 160;
