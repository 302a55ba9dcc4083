//! The copies as callers see them: nobody waits for the disk but those whom
//! the store has failed.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Options;
use super::counts::{Counts, WarmStats};
use super::file::Place;
use super::keep::Keeper;
use super::queue::{Kept, Queue};
use super::seen::{Mark, Sealing, Seen};
use super::tables::Meta;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::{Begun, Recent};
use sekisho_certs::seal::CHECK;
use sekisho_certs::store::{CatalogId, Document, Found, LogPosition, Result, Source, StoreError};

/// The file of copies. Clones share it; it is closed with the last.
#[derive(Clone, Debug)]
pub struct Copies(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queue: Arc<Queue<Keeper>>,
    seen: Arc<Seen>,
    counts: Arc<Counts>,
    recent: Arc<Mutex<Recent>>,
    /// The catalog that the copies are of.
    catalog: Mutex<Option<CatalogId>>,
    own: CatalogId,
    options: Options,
    /// Whether the log says that the store is down.
    is_away: AtomicBool,
    outage: Mutex<Outage>,
}

/// What is known of a store that fails.
#[derive(Debug, Default)]
struct Outage {
    /// When it last did, and a copy answered.
    failed: Option<Instant>,
    /// When that was last told.
    told: Option<Instant>,
}

impl Copies {
    /// Opens the file, or makes it. It reads one row: what it takes does not
    /// depend on how many copies there are.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] says why there can be none: the file can't
    /// be written, is another program's, or is another process's now. A server
    /// goes without.
    pub fn open(options: &Options) -> Result<Self> {
        let unavailable = |why: String| StoreError::Unavailable(why.into());
        let place = Place::take(&options.path, options.size).map_err(unavailable)?;
        let wanted = Meta {
            store: digest(&SHA256, options.store.as_bytes()).as_ref().to_vec(),
            own: fresh_id(),
            catalog: None,
            position: None,
        };
        let (connection, meta) = place.open(&wanted).map_err(unavailable)?;
        let mut recent = Recent::default();
        if let Some(position) = meta.position {
            recent.restart(position);
        }
        let shared = Shared {
            queue: Arc::new(Queue::new()),
            seen: Arc::new(Seen::new()),
            counts: Arc::default(),
            recent: Arc::new(Mutex::new(recent)),
            catalog: Mutex::new(meta.catalog),
            own: meta.own,
            options: options.clone(),
            is_away: AtomicBool::new(false),
            outage: Mutex::default(),
        };
        let keeper = Keeper {
            place,
            connection: Some(connection),
            meta,
            documents: Vec::new(),
            recent: Arc::clone(&shared.recent),
            seen: Arc::clone(&shared.seen),
            counts: Arc::clone(&shared.counts),
            complained: false,
            retry: None,
        };
        let queue = Arc::clone(&shared.queue);
        let copies = Self(Arc::new(shared));
        thread::Builder::new()
            .name("warm".to_owned())
            .spawn(move || keeper.run(&queue))
            .map_err(|error: io::Error| unavailable(format!("no thread for copies: {error}")))?;
        Ok(copies)
    }

    /// Figures for metrics.
    #[must_use]
    pub fn stats(&self) -> WarmStats {
        self.0.counts.stats(self.0.options.size)
    }

    /// Whether the thread has done all that it was given.
    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.0.queue.is_idle()
    }

    /// Whether the log says that the store is down.
    #[cfg(test)]
    pub(super) fn is_away(&self) -> bool {
        self.0.is_away.load(Ordering::Relaxed)
    }

    /// What is sealed for this file alone is bound to it.
    pub(super) fn own(&self) -> CatalogId {
        self.0.own
    }

    pub(super) fn catalog(&self) -> MutexGuard<'_, Option<CatalogId>> {
        lock(&self.0.catalog)
    }

    pub(super) fn recent(&self) -> MutexGuard<'_, Recent> {
        lock(&self.0.recent)
    }

    /// Up to where changes are applied.
    pub(super) fn position(&self) -> Option<LogPosition> {
        let recent = self.recent();
        let number = recent.number;
        recent.log.map(|log| LogPosition {
            log,
            number,
            mark: 0,
        })
    }

    /// Its mark, if it may not lie on the disk yet.
    pub(super) fn unseen<K: Sealing>(&self, name: &HostName, found: &Found<K>) -> Option<Mark> {
        let mark = self.0.seen.mark(name, found);
        (!self.0.seen.holds(mark)).then_some(mark)
    }

    /// Keeps what the store found, if there is room in the queue.
    pub(super) fn keep(
        &self,
        name: &HostName,
        found: Found<SealedBytes>,
        mark: Mark,
        begun: Option<Begun>,
    ) {
        self.queue(Kept {
            name: name.clone(),
            said: Some((Box::new(found), mark)),
            begun,
        });
    }

    /// Drops what a plain store has no more.
    pub(super) fn absent(&self, name: &HostName) {
        self.queue(Kept {
            name: name.clone(),
            said: None,
            begun: None,
        });
    }

    fn queue(&self, kept: Kept) {
        if !self.0.queue.keep(kept) {
            self.0.counts.dropped(1);
        }
    }

    /// What stands in for an answer that the store failed to give.
    pub(super) async fn find(
        &self,
        name: &HostName,
        failed: &StoreError,
    ) -> Option<Found<SealedBytes>> {
        let name = name.clone();
        let mut found = self.ask(move |keeper| keeper.find(&name)).await.flatten()?;
        found.source = Source::StandIn;
        self.stood_in(failed);
        Some(found)
    }

    /// Whether documents of that kind are kept.
    pub(super) fn keeps(&self, kind: &str) -> bool {
        kind == CHECK || self.0.options.documents.contains(&kind)
    }

    /// The same for a document, which is left out if it is over.
    pub(super) async fn document(&self, kind: &str, key: &str) -> Option<Document<SealedBytes>> {
        if !self.keeps(kind) {
            return None;
        }
        let (kind, key) = (kind.to_owned(), key.to_owned());
        let asked = self.ask(move |keeper| keeper.document(&kind, &key)).await;
        let now = self.0.options.clock.now();
        let document = asked.flatten()?;
        let is_over = document.expires.is_some_and(|expires| expires <= now);
        (!is_over).then_some(document)
    }

    /// The store was asked and failed, and a copy answered.
    pub(super) fn stood_in(&self, failed: &StoreError) {
        self.0.counts.answered();
        let now = Instant::now();
        let mut outage = lock(&self.0.outage);
        outage.failed = Some(now);
        // One that comes and goes is told of now and then.
        let is_told = outage.told.is_some_and(|told| now < told + TELL);
        if self.0.is_away.load(Ordering::Relaxed) || is_told {
            return;
        }
        outage.told = Some(now);
        self.0.is_away.store(true, Ordering::Relaxed);
        let copies = self.stats().copies;
        tracing::warn!(
            error = %failed,
            copies,
            "the store is out of reach, what is not in memory is answered from copies on disk"
        );
    }

    /// Whether the store failed so lately that a copy may answer unasked.
    pub(super) fn failed_lately(&self) -> bool {
        let failed = lock(&self.0.outage).failed;
        failed.is_some_and(|failed| failed.elapsed() < RESPITE)
    }

    /// The store answered.
    pub(super) fn store_answered(&self) {
        // Nearly always false: nothing is written then.
        if self.0.is_away.load(Ordering::Relaxed) && self.0.is_away.swap(false, Ordering::Relaxed) {
            lock(&self.0.outage).failed = None;
            tracing::info!("the store answers again");
        }
    }

    /// Waits for what the thread gives; none if there is no room, or the disk
    /// takes too long.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Keeper) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let is_queued = self.0.queue.call(Box::new(move |keeper| {
            if !answer.is_closed() {
                let _ = answer.send(work(keeper));
            }
        }));
        if !is_queued {
            return None;
        }
        timeout(WAIT, answered).await.ok()?.ok()
    }

    /// Has it done some time, or left undone if there is no room.
    pub(super) fn post(&self, work: impl FnOnce(&mut Keeper) + Send + 'static) {
        self.0.queue.call(Box::new(work));
    }

    /// Has it done in any case: if there is no room, all copies are dropped
    /// instead. Who holds the lock of [`Self::recent`] decides the order.
    pub(super) fn must(
        &self,
        work: impl FnOnce(&mut Keeper) + Send + 'static,
    ) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        self.0.queue.must_call(Box::new(move |keeper| {
            work(keeper);
            let _ = done.send(());
        }));
        receiver
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn fresh_id() -> CatalogId {
    let mut id = [0; 16];
    aws_lc_rs::rand::fill(&mut id).expect("the system gives random bytes");
    CatalogId(id)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a copy may take; the store has taken its own time before.
const WAIT: Duration = Duration::from_secs(1);
/// For how long a store that failed is not asked for what a start needs: what
/// it asks for one after the other must not cost a deadline each.
const RESPITE: Duration = Duration::from_secs(1);
/// Between two warnings.
const TELL: Duration = Duration::from_secs(10);
