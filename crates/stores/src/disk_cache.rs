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
//! **Bounds.** File and write-ahead log together stay within a size; the
//! copies that were written the longest ago make room. Trouble with the disk
//! is never the server's: a file that is damaged or of another version is
//! replaced, one that is not ours, is locked by another process or can't be
//! written is passed over. Where copies could not be dropped, the file is
//! removed.

mod counts;
mod file;
mod plain;
mod resync;
mod start;
mod tables;
mod writer;
mod written;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use self::counts::Counts;
pub use self::counts::Stats;
use self::file::Place;
use self::resync::Following;
pub use self::start::StartState;
use self::tables::Meta;
use self::writer::{Inbox, Kept, Writer};
use self::written::Written;
use sekisho_certs::SealedBytes;
use sekisho_certs::clock::Clock;
use sekisho_certs::host::HostName;
use sekisho_certs::log::{Noted, Seen};
use sekisho_certs::metrics::{self, Registry};
use sekisho_certs::store::{CatalogId, DocumentKind, Found, LogPosition, Result, StoreError};

/// Where copies are kept, and of what.
#[derive(Clone, Debug)]
pub struct Options {
    /// The file. Beside it lie its log (`-wal`) and a lock (`.lock`).
    pub path: PathBuf,
    /// Bytes that file and log may have together, 4 MiB at least.
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
    shared: Arc<Shared>,
    /// Follows a catalog's log.
    resync: OnceLock<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inbox: Inbox,
    written: Arc<Written>,
    counts: Arc<Counts>,
    /// What is sealed for this file alone is bound to it.
    own: CatalogId,
    options: Options,
    /// Where the file was when it was opened.
    opened_at: Option<LogPosition>,
    start: Option<StartState>,
    following: Following,
    outage: Mutex<Outage>,
}

/// What the log says of a store that fails.
#[derive(Debug, Default)]
struct Outage {
    /// Whether the feed failed last.
    is_feed_broken: bool,
    is_away: bool,
    /// When that was last logged.
    logged: Option<Instant>,
}

impl DiskCache {
    /// Opens the file, or makes it. It reads a few rows: what it takes does
    /// not depend on how many copies there are. `seen` is how far this process
    /// has seen the log; without a log it stays empty.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] says why there can be none: the file can't
    /// be written, is another program's, or is another process's now. A server
    /// goes without.
    pub fn open(options: &Options, seen: Arc<Seen>) -> Result<Self> {
        let unavailable = |why: String| StoreError::Unavailable(why.into());
        let place = Place::take(&options.path, options.size).map_err(unavailable)?;
        let wanted = Meta {
            store: digest(&SHA256, options.store.as_bytes()).as_ref().to_vec(),
            own: fresh_id(),
            catalog: None,
            position: None,
        };
        let (connection, meta) = place.open(&wanted).map_err(unavailable)?;
        let documents = tables::documents(&connection).unwrap_or_default();
        let start = StartState::of(&meta, &documents, options.clock.now());
        let (own, opened_at) = (meta.own, meta.position);
        let (written, counts) = (Arc::<Written>::default(), Arc::<Counts>::default());
        let writer = Writer::new(place, connection, meta, documents, seen)
            .sharing(Arc::clone(&written), Arc::clone(&counts));
        let (inbox, tasks) = Inbox::new();
        thread::Builder::new()
            .name("disk-cache".to_owned())
            .spawn(move || writer.run(&tasks))
            .map_err(|error| unavailable(format!("no thread for the disk cache: {error}")))?;
        let shared = Shared {
            inbox,
            written,
            counts,
            own,
            options: options.clone(),
            opened_at,
            start,
            following: Following::default(),
            outage: Mutex::default(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            resync: OnceLock::new(),
        })
    }

    /// Registers the metrics of copies and of answers from them.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let disk = Arc::clone(self);
        metrics::register(registry, move |to| disk.stats().write(to));
    }

    /// Returns what it counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counts.stats(self.shared.options.size)
    }

    /// What a server starts with while the store is out of reach. It counts
    /// until the catalog first answers.
    #[must_use]
    pub fn start_state(&self) -> Option<StartState> {
        self.shared.start.clone()
    }

    /// Where the log is followed from: up to there the copies are right.
    #[must_use]
    pub fn position(&self) -> Option<LogPosition> {
        self.shared.opened_at
    }

    /// Keeps what a catalog found, asked after `noted`, if there is room in
    /// the queue.
    pub(crate) fn keep(&self, name: &HostName, found: &Found<SealedBytes>, noted: Noted) {
        let shared = &self.shared;
        if let Some(mark) = shared.written.missing(name, found, master_key) {
            let kept = Kept::found(name, found.clone(), mark, Some(noted));
            if !shared.inbox.keep(kept) {
                shared.counts.dropped(1);
            }
        }
    }

    /// The copy that answers for a catalog that failed, for a lookup that
    /// noted how far the log was seen.
    pub(crate) async fn find(&self, name: &HostName, noted: Noted) -> Option<Found<SealedBytes>> {
        let name = name.clone();
        self.shared
            .ask(move |writer| writer.find(&name, noted))
            .await?
    }

    /// Drops a copy that does not open.
    pub(crate) fn drop_unusable(&self, found: &Found<SealedBytes>, why: &str) {
        let (pattern, why) = (found.record.pattern.clone(), why.to_owned());
        self.shared
            .inbox
            .call(move |writer| writer.drop_unusable(pattern.as_str(), &why));
    }

    /// Whether the disk has all that it was given.
    #[cfg(test)]
    fn is_settled(&self) -> bool {
        self.shared.inbox.is_idle() && self.shared.following.is_settled()
    }

    /// The store failed, and a copy answered.
    pub(crate) fn stood_in(&self, failed: &StoreError) {
        let shared = &self.shared;
        shared.counts.answered();
        let mut outage = shared.outage();
        let now = Instant::now();
        // A store that comes and goes is logged now and then.
        let is_logged = outage.logged.is_some_and(|at| now < at + LOG_EVERY);
        if outage.is_away || is_logged {
            return;
        }
        outage.is_away = true;
        outage.logged = Some(now);
        let copies = self.stats().copies;
        tracing::warn!(
            error = %failed,
            copies,
            "the store is out of reach, what is not in memory is answered from the disk cache"
        );
    }

    /// The store answered.
    pub(crate) fn store_answered(&self) {
        if std::mem::take(&mut self.shared.outage().is_away) {
            tracing::info!("the store answers again");
        }
    }
}

impl Shared {
    fn outage(&self) -> MutexGuard<'_, Outage> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what the writer gives; none if there is no room, or the disk
    /// takes too long.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let is_queued = self.inbox.call(move |writer| {
            if !answer.is_closed() {
                let _ = answer.send(work(writer));
            }
        });
        if !is_queued {
            return None;
        }
        timeout(FIND_TIMEOUT, answered).await.ok()?.ok()
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        if let Some(resync) = self.resync.get() {
            resync.abort();
        }
    }
}

/// The master key that a sealed key needs. A secret that is sealed again keeps
/// its version, and the key that its copy needs may be taken away. The nonce is
/// no part: under the same key one sealing is as good as another.
fn master_key(sealed: &SealedBytes) -> u32 {
    sealed.key_id
}

fn fresh_id() -> CatalogId {
    let mut id = [0; 16];
    aws_lc_rs::rand::fill(&mut id).expect("the system gives random bytes");
    CatalogId(id)
}

/// What a copy may take; the store has taken its own time before.
const FIND_TIMEOUT: Duration = Duration::from_secs(1);
/// Between two warnings.
const LOG_EVERY: Duration = Duration::from_secs(10);
