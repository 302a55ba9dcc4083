//! A cache on the local disk of what a store elsewhere said: a server that
//! restarts while the store is down serves the hosts that it had.
//!
//! **When it answers.** The store is always asked first. Only if its call
//! failed in a way that heals by itself (out of reach, too slow, overloaded)
//! is the copy looked for. A name without a copy stays failed: a failure never
//! becomes an absence, and absences are not kept.
//!
//! **Which copy answers.** The copy of the exact name. Else that of the
//! wildcard above, if nothing stood below it (`shadowed` was false), or if the
//! store had answered this very name with it: for that, names below a shadowed
//! wildcard are noted. A wildcard never answers a name that may have, or may
//! have had, a record of its own.
//!
//! **How copies are written.** By a thread of their own, some milliseconds
//! later, many in one transaction. A full queue drops what is to be kept. What
//! lies there already in the same version costs a look at a table in memory.
//!
//! **How copies are dropped.** With a catalog, the cache follows its log: each
//! page drops copies of what changed, synced to the disk, and the file notes
//! how far it is. A copy answers only if the file is as far as this process has
//! seen the log. A cache that fell behind pages the log from its own number,
//! at a start too; a gap or another log drops everything. An answer that a
//! change overtook is not written, by the same rule as in the lookup. With a
//! plain store, which tells of no changes, the store's next answer for the
//! name replaces or drops the copy.
//!
//! **A start without the store.** [`DiskCache::start_state`] has what a server
//! else asks the catalog for: its id, the check value, documents.
//!
//! **What lies on the disk.** Private keys of a catalog, and documents, are
//! sealed as they are in it. Keys of a plain store are sealed by a ring of this
//! server. Copies belong to one store: a file that was written beside another
//! is started anew.
//!
//! **Who has the file.** One process. It hands the file over to the one that takes its
//! place, by the steps in `hand_over.rs`.
//!
//! **Bounds.** File and write-ahead log together stay within a size; the
//! copies that were written the longest ago make room. Trouble with the disk
//! is never the server's: a file that is damaged or of another version is
//! replaced, one that is not ours, is locked by another process or can't be
//! written is passed over. Where copies could not be dropped, the file is
//! removed.

mod file;
mod hand_over;
mod pending;
mod plain;
mod resync;
mod start;
mod stats;
mod tables;
mod writer;
mod written;

#[cfg(test)]
pub(crate) mod tests;

use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::sleep;

use self::file::CacheFile;
use self::pending::{Kept, Pending};
use self::resync::Resync;
pub use self::start::StartState;
use self::stats::Stats;
use self::tables::Meta;
use self::writer::Writer;
use self::written::Written;
use crate::fault::{unavailable, within};
use crate::threads::Threads;
use sekisho_certs::SealedBytes;
use sekisho_certs::clock::Clock;
use sekisho_certs::host::HostName;
use sekisho_certs::lock;
use sekisho_certs::metrics::Registry;
use sekisho_certs::random;
use sekisho_certs::store::{
    Catalog, CatalogId, DocumentKind, Found, LogPosition, Result, StoreError,
};
use sekisho_certs::{LogLimiter, Noted, Seen};

/// Where copies are kept, and of what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file. Beside it lie its write-ahead log (`-wal`) and a lock (`.lock`).
    pub path: PathBuf,
    /// Bytes that file and write-ahead log may have together, 4 MiB at least.
    pub size: u64,
    /// Names the store, without passwords: copies of another are not used.
    pub store: String,
    /// The kinds of documents that a start needs, beside the check value.
    pub documents: Vec<DocumentKind>,
    /// Tells which documents are expired.
    pub clock: Clock,
}

/// The cache on disk. Its file is closed when it is dropped.
#[derive(Debug)]
pub struct DiskCache {
    inner: Arc<Inner>,
    _writing: JoinSet<()>,
    /// Follows a catalog's log.
    resync: OnceLock<JoinSet<()>>,
}

#[derive(Debug)]
struct Inner {
    /// Runs on one thread, since SQLite gives the file to one connection.
    writer: Threads<Writer>,
    /// The writer's lock. It ends with the writer.
    lock: Weak<File>,
    shared: Arc<Shared>,
    /// Id of this file: keys of a plain store are sealed for it alone.
    own: CatalogId,
    options: Options,
    /// Where the file was when it was opened.
    opened_at: Option<LogPosition>,
    start: Option<StartState>,
    outage: Mutex<Outage>,
}

/// State that callers share with the writer.
#[derive(Debug, Default)]
struct Shared {
    seen: Arc<Seen>,
    pending: Pending,
    written: Written,
    resync: Resync,
    stats: Stats,
}

/// State of log lines about a store that fails, which are not repeated.
#[derive(Debug, Default)]
struct Outage {
    /// True after a reading of the feed that succeeded.
    is_feed_healthy: bool,
    is_away: bool,
    logged: LogLimiter,
}

impl DiskCache {
    /// Opens the file, or makes it. It reads a few rows: what it takes does
    /// not depend on how many copies there are. `seen` is how far this process
    /// has seen the log; without a log it stays empty. The runtime drives what
    /// is not done at once.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] says why there can be none: the file can't
    /// be written, is another program's, or is another process's now. A server
    /// goes without.
    pub fn open(options: &Options, seen: Arc<Seen>, runtime: &Handle) -> Result<Self> {
        let file = CacheFile::lock(&options.path, options.size);
        Self::start(file.map_err(unavailable)?, options, seen, runtime)
    }

    fn start(
        file: CacheFile,
        options: &Options,
        seen: Arc<Seen>,
        runtime: &Handle,
    ) -> Result<Self> {
        let wanted = Meta {
            store: digest(&SHA256, options.store.as_bytes()).as_ref().to_vec(),
            own: CatalogId(random()),
            catalog: None,
            position: None,
        };
        let (connection, meta) = file.open(&wanted).map_err(unavailable)?;
        let documents = tables::all_documents(&connection).unwrap_or_default();
        let start = StartState::of(&meta, documents, options.clock.now());
        let (own, opened_at) = (meta.own, meta.position);
        let shared = Arc::new(Shared {
            seen,
            ..Shared::default()
        });
        shared.stats.start_state.set(start.is_some().into());
        let lock = file.lock_of_process();
        let writer = Writer::new(file, connection, meta, Arc::clone(&shared));
        let writer = Threads::start("disk-cache", [writer], MAX_CALLS)
            .map_err(|error| unavailable(format!("no thread for the disk cache: {error}")))?;
        let inner = Arc::new(Inner {
            writer,
            lock,
            shared,
            own,
            options: options.clone(),
            opened_at,
            start,
            outage: Mutex::default(),
        });
        let mut writing = JoinSet::new();
        writing.spawn_on(Arc::clone(&inner).keep_pending(), runtime);
        Ok(Self {
            _writing: writing,
            inner,
            resync: OnceLock::new(),
        })
    }

    /// Follows this catalog's log once a feed tells of it.
    pub fn keep_up(&self, catalog: Arc<dyn Catalog>, runtime: &Handle) {
        self.resync.get_or_init(|| {
            let mut resync = JoinSet::new();
            resync.spawn_on(Arc::clone(&self.inner).keep_up(catalog), runtime);
            resync
        });
    }

    /// Registers the metrics of copies and of answers from them.
    pub fn register(&self, registry: &mut Registry) {
        let inner = &self.inner;
        inner.shared.stats.register(registry, inner.options.size);
    }

    /// Returns the state that a server starts with while the store is out of
    /// reach. It counts until the catalog first answers.
    #[must_use]
    pub fn start_state(&self) -> Option<StartState> {
        self.inner.start.clone()
    }

    /// Where the log is followed from: up to there the copies are right.
    #[must_use]
    pub fn position(&self) -> Option<LogPosition> {
        self.inner.opened_at
    }

    /// Keeps what a catalog found, asked after `noted`, if there is room.
    pub(crate) fn keep(&self, name: &HostName, found: &Found<SealedBytes>, noted: Noted) {
        if self.inner.is_retired() {
            return;
        }
        let shared = &self.inner.shared;
        if let Some(fingerprint) = shared.written.missing(name, found, master_key) {
            let kept = Kept {
                name: name.clone(),
                found: Some((found.clone(), fingerprint)),
                noted: Some(noted),
            };
            shared.count_dropped((!shared.pending.keep(kept)).into());
        }
    }

    /// The copy that answers for a catalog that failed, for a lookup that
    /// noted how far the log was seen.
    pub(crate) async fn find(&self, name: &HostName, noted: Noted) -> Option<Found<SealedBytes>> {
        let name = name.clone();
        let found = self.inner.ask(move |writer| writer.find(&name, noted));
        found.await.ok()?
    }

    /// The store failed, and a copy answered.
    pub(crate) fn stood_in(&self, failed: &StoreError) {
        let stats = &self.inner.shared.stats;
        stats.answers.inc();
        let mut outage = lock(&self.inner.outage);
        // A store that comes and goes is logged now and then.
        if outage.is_away || outage.logged.allow().is_none() {
            return;
        }
        outage.is_away = true;
        tracing::warn!(
            error = %failed,
            copies = stats.copies.get(),
            "the store is out of reach, what is not in memory is answered from the disk cache"
        );
    }

    /// The store answered.
    pub(crate) fn store_answered(&self) {
        if std::mem::take(&mut lock(&self.inner.outage).is_away) {
            tracing::info!("the store answers again");
        }
    }
}

impl Inner {
    /// Tells whether the cache has ended, for a process that another one replaced: the
    /// writer's lock is gone. That spares work which the writer refuses, too.
    fn is_retired(&self) -> bool {
        self.lock.strong_count() == 0
    }

    /// Waits for what the writer gives.
    ///
    /// # Errors
    /// Too much waits already, the disk takes too long, or another process has the file.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> Result<T> {
        let given = self.writer.run(move |writer| match writer.has_file() {
            true => Ok(work(writer)),
            false => Err(unavailable("the disk cache was handed over")),
        });
        within(ASK_TIMEOUT, given).await
    }

    /// Counts the copies, then writes answers soon after the first of them came.
    /// A hung disk is waited for: meanwhile more come together, up to their bound.
    async fn keep_pending(self: Arc<Self>) {
        let run = |work: fn(&mut Writer)| {
            self.writer.run(move |writer| {
                work(writer);
                Ok(())
            })
        };
        let _ = run(Writer::count).await;
        let filled = &self.shared.pending.filled;
        loop {
            filled.notified().await;
            sleep(BATCH_DELAY).await;
            if run(Writer::keep_pending).await.is_err() {
                filled.notify_one();
            }
        }
    }
}

impl Shared {
    fn count_copies(&self, new: usize, gone: usize) {
        let copies = &self.stats.copies;
        copies.set((copies.get() + new as u64).saturating_sub(gone as u64));
    }

    fn count_dropped(&self, answers: usize) {
        self.stats.dropped.inc_by(answers as u64);
    }
}

/// The master key that a sealed key needs. A secret that is sealed again keeps
/// its version, and the key that its copy needs may be taken away. The nonce is
/// no part: under the same key one sealing is as good as another.
fn master_key(sealed: &SealedBytes) -> u32 {
    sealed.key_id
}

/// Bounds a call of the disk. In a lookup the store has taken its own time
/// before.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// Calls that wait for the disk: as many as loads may be in flight in a busy
/// server. Of the change log there is one page at most.
const MAX_CALLS: usize = 1024;
/// How long the first answer waits for more to share a transaction with.
const BATCH_DELAY: Duration = Duration::from_millis(20);
