//! Memory cache of small files.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use quick_cache::sync::{Cache as Quick, DefaultLifecycle};
use quick_cache::{Equivalent, OptionsBuilder, Weighter};
use sekisho_certs::clock;
use sekisho_certs::metrics::{BusyCounter, Counter};
use tokio::time::Instant;

use super::Folder;
use super::load::{Identity, SmallFile, TEXTS};
use super::path::FilePath;
use crate::site::{Coding, Root, allocated};

/// Cache of path results: bounded in bytes, scan-resistant.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(super) entries: Quick<Key, Arc<Entry>, Weigh, RandomState>,
    epoch: Instant,
    pub(super) hits: BusyCounter,
    pub(super) misses: Counter,
}

impl Cache {
    /// Makes a cache of at most `capacity` bytes; it allocates with the first
    /// entry.
    pub(crate) fn new(capacity: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(1 << (capacity / SHARD).clamp(8, 32).ilog2())
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
            hits: BusyCounter::default(),
            misses: Counter::default(),
        }
    }

    /// Returns the milliseconds since the cache was made.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from((clock::monotonic() - self.epoch).as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the entry of a path and its age. Counts a hit or a miss.
    pub(crate) fn find(&self, key: &KeyRef<'_>) -> Option<(Arc<Entry>, Age)> {
        let found = self.entries.get(key).map(|entry| {
            let age = entry.age(self.now());
            (entry, age)
        });
        let is_served = |(entry, age): &(Arc<Entry>, Age)| *age != Age::Stale && !entry.is_large();
        if found.as_ref().is_some_and(is_served) {
            self.hits.inc();
        } else {
            self.misses.inc();
        }
        found
    }

    /// Adds a result that was read at `checked`.
    pub(crate) fn insert(&self, key: Key, what: What, checked: u64) -> Arc<Entry> {
        let entry = Arc::new(Entry {
            what,
            checked: AtomicU64::new(checked),
            claimed: AtomicBool::new(false),
        });
        self.entries.insert(key, Arc::clone(&entry));
        entry
    }

    /// Drops all entries and bounds the cache to `capacity` bytes.
    pub(crate) fn shrink(&self, capacity: usize) {
        // Entries are dropped one by one: a shard that is emptied at once stays locked meanwhile.
        self.entries.drain().for_each(drop);
        self.entries.set_capacity(capacity as u64);
    }

    /// Removes a path.
    pub(crate) fn remove(&self, key: &Key) {
        self.entries.remove(key);
    }
}

/// Cache key: a path of a host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The root as the site has it: equal sites share entries. What lies below the part
    /// that the operator chose was judged by that part.
    pub(crate) root: Root,
    /// The host name; empty if the root does not depend on it.
    pub(crate) host: Box<str>,
    /// Path below the root. Empty, or with a slash at its end, it names a directory's
    /// index.
    pub(crate) path: Box<str>,
    pub(crate) form: Form,
}

/// Form in which a path is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The file itself.
    Plain,
    /// A script, whose content nobody gets.
    Script,
    /// A copy beside the file that was compressed before.
    Precompressed(Coding),
    /// The content of the file in memory, compressed at a level of gzip; of br, the level is 0.
    /// Never read from the disk.
    Compressed(Coding, u8),
}

/// Borrowed cache key, for lookups. It has the hash of its [`Key`]: the fields are the same.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct KeyRef<'a> {
    pub(crate) root: &'a Root,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) form: Form,
}

impl<'a> KeyRef<'a> {
    pub(super) fn new(folder: Folder<'a>, path: &FilePath<'a>, form: Form) -> Self {
        let Folder { root, host, .. } = folder;
        Self {
            root,
            host: root.template.variable(host),
            path: path.as_str(),
            form,
        }
    }

    pub(crate) fn to_key(self) -> Key {
        Key {
            root: self.root.clone(),
            host: self.host.into(),
            path: self.path.into(),
            form: self.form,
        }
    }
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        // The path comes first: it differs most often.
        same(self.path, &key.path)
            && same(self.host, &key.host)
            && self.form == key.form
            && *self.root == key.root
    }
}

/// Compares two texts without calling `memcmp` for empty ones: glibc's AVX-512
/// version takes 200 ns for their dangling pointers.
fn same(one: &str, other: &str) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// Cached result, and when it was last validated.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) what: What,
    checked: AtomicU64,
    claimed: AtomicBool,
}

impl Entry {
    /// Returns the identity of a cached file.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match &self.what {
            What::File(file) => file.identity,
            _ => None,
        }
    }

    pub(crate) fn is_large(&self) -> bool {
        matches!(self.what, What::Large)
    }

    pub(crate) fn is_file(&self) -> bool {
        matches!(self.what, What::File(_))
    }

    /// Notes that the result was still valid at `checked`.
    pub(crate) fn renew(&self, checked: u64) {
        self.checked.fetch_max(checked, Ordering::Relaxed);
    }

    /// Claims the revalidation of the entry, for one task at a time.
    pub(crate) fn claim(self: &Arc<Self>) -> Option<Claim> {
        (!self.claimed.swap(true, Ordering::Acquire)).then(|| Claim(Arc::clone(self)))
    }

    /// Returns the freshness at a time of the cache.
    pub(super) fn age(&self, now: u64) -> Age {
        let age = Duration::from_millis(now.saturating_sub(self.checked.load(Ordering::Relaxed)));
        match self.what {
            _ if age < FRESH => Age::Fresh,
            What::File(_) | What::Large if age < REFRESH => Age::Refresh,
            _ => Age::Stale,
        }
    }
}

/// Claim to revalidate an entry; dropping it ends the claim.
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

/// Freshness of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// Serve it.
    Fresh,
    /// Serve it, and read again in the background (stale-while-revalidate).
    Refresh,
    /// Read again first. A file is served if that takes too long.
    Stale,
}

/// Result of reading a path.
#[derive(Debug)]
pub(crate) enum What {
    File(Box<SmallFile>),
    /// Directory whose path has no slash at its end: it redirects to that.
    Directory,
    /// Nothing that a site may serve.
    Missing,
    /// A file without a copy in the coding.
    NoCopy,
    /// Script: a regular file, which was not read.
    Script,
    /// Note that the file is too large for the cache. A request that has no
    /// permit to keep such a file open waits for one before it opens the file.
    Large,
    /// Content of a file in a coding, if that is smaller, and the state of that file.
    Compressed(Box<(Option<Bytes>, Identity)>),
}

#[derive(Clone, Debug)]
pub(super) struct Weigh;

impl Weighter<Key, Arc<Entry>> for Weigh {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        let content = match &entry.what {
            What::File(file) => {
                let seventh = file.head.headers.len().saturating_sub(6) * SEVENTH_HEADER;
                let headers = HEADERS + seventh;
                size_of::<SmallFile>() + headers + allocated(file.body.len() + TEXTS)
            }
            What::Compressed(copy) => {
                size_of_val(&**copy) + allocated(copy.0.as_ref().map_or(0, Bytes::len))
            }
            What::Directory | What::Missing | What::NoCopy | What::Large | What::Script => 0,
        };
        // The root's text counts in full: a million hosts may have a million
        // roots.
        let texts = key.root.template.text.len() + key.host.len() + key.path.len();
        (texts + content + size_of::<Entry>() + OVERHEAD) as u64
    }
}

/// How long an entry is fresh. A replaced file is noticed within 1 s of its
/// next request, and a busy one costs one check per second.
const FRESH: Duration = Duration::from_secs(1);
/// Age up to which an entry is served while it is revalidated. Without this
/// bound, the first request of a day would get yesterday's page.
const REFRESH: Duration = Duration::from_secs(10);
/// Bytes per lock, at least, where there are more than 8; at most 32. A shard holds 12 of
/// the largest entries. quick_cache rounds the number up to a power of two, pads nothing,
/// and has two locks on no cache line.
const SHARD: usize = 1 << 20;
/// Bytes of a typical entry, to estimate the number of entries.
const TYPICAL: usize = 8 << 10;
/// Bytes of the prebuilt headers: a table of six with an index of 16, and the counter of
/// references to the buffer of their values.
const HEADERS: usize = 640 + 64 + 32;
/// Bytes that a table of seven takes more.
const SEVENTH_HEADER: usize = 128;
/// Bytes of the cache's own record, the counters of the `Arc`s, and the
/// allocator's rounding of what is small.
const OVERHEAD: usize = 160;
