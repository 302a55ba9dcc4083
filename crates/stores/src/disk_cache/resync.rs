//! Keeps the file as far as the catalog's log.
//!
//! The feed hands over its pages. A file that missed one is paged from its own
//! number by a task, which also reads the documents that a start needs.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;

use super::{DiskCache, Inner};
use sekisho_certs::Noted;
use sekisho_certs::lock;
use sekisho_certs::seal::CHECK;
use sekisho_certs::store::{
    BoxFuture, Catalog, ChangePage, DocumentId, LogPosition, Result, Subject,
};
use sekisho_certs::{FeedState, Follower};

/// Work that waits for the resync.
#[derive(Debug, Default)]
pub(super) struct Resync {
    /// The file missed a page, and is given none before it has caught up.
    is_late: AtomicBool,
    /// How often the log and the documents were to be read.
    requested: AtomicU64,
    /// The number of the last request that was met.
    met: AtomicU64,
    wake: Notify,
}

impl Follower for DiskCache {
    fn feed_is(&self, state: FeedState) {
        let is_healthy = state == FeedState::Healthy;
        let was_healthy =
            std::mem::replace(&mut lock(&self.inner.outage).is_feed_healthy, is_healthy);
        if is_healthy && !was_healthy {
            // No lookup may need the store for a long time after it is back.
            self.store_answered();
            // Documents may have changed while this server was off.
            self.inner.shared.resync.request();
        }
    }

    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        let inner = &self.inner;
        let resync = &inner.shared.resync;
        if page.changes.iter().any(|one| inner.keeps(&one.subject)) {
            resync.request();
        }
        if page.changes.is_empty() || resync.is_late.load(Ordering::Acquire) {
            return Box::pin(ready(()));
        }
        let page = page.clone();
        Box::pin(async move {
            let applied = inner.ask(move |writer| writer.apply(&page)).await;
            if !applied.unwrap_or(false) {
                self.late();
            }
        })
    }

    /// Leaves it to the resync whether the file continues. Until then it answers
    /// only if it is as far as [`Seen`](sekisho_certs::Seen), in the same
    /// epoch.
    fn start_over(&self, _: LogPosition) -> BoxFuture<'_, ()> {
        self.late();
        Box::pin(ready(()))
    }

    fn late(&self) {
        self.inner.shared.resync.late();
    }
}

impl Resync {
    pub(super) fn request(&self) {
        self.requested.fetch_add(1, Ordering::AcqRel);
        self.wake.notify_one();
    }

    pub(super) fn late(&self) {
        self.is_late.store(true, Ordering::Release);
        self.request();
    }

    /// The number of the last request, unless it was met.
    fn due(&self) -> Option<u64> {
        let requested = self.requested.load(Ordering::Acquire);
        (requested != self.met.load(Ordering::Acquire)).then_some(requested)
    }

    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        !self.is_late.load(Ordering::Acquire) && self.due().is_none()
    }
}

impl Inner {
    fn keeps(&self, subject: &Subject) -> bool {
        let is_kept = |id: &DocumentId| *id == CHECK || self.options.documents.contains(&id.kind);
        matches!(subject, Subject::Document(id) if is_kept(id))
    }

    /// Catches up at each request, until the future is dropped or the cache ends.
    pub(super) async fn keep_up(self: Arc<Self>, catalog: Arc<dyn Catalog>) {
        let resync = &self.shared.resync;
        loop {
            resync.wake.notified().await;
            while let Some(due) = resync.due() {
                if self.is_retired() {
                    return;
                }
                match self.catch_up(catalog.as_ref()).await {
                    Ok(()) => resync.met.store(due, Ordering::Release),
                    Err(error) => {
                        tracing::debug!(%error, "the disk cache is not up to date");
                        sleep(RETRY).await;
                    }
                }
            }
        }
    }

    async fn catch_up(&self, catalog: &dyn Catalog) -> Result<()> {
        while !self.step(catalog).await? {}
        self.read_documents(catalog).await
    }

    /// Takes one step towards the end of the log: applies its next page, or drops
    /// everything where it does not continue. Returns whether the end is reached.
    ///
    /// While the file is late, `follow` skips the feed's pages. At the end of the
    /// log this step first ends that, and returns false. A page that was skipped
    /// since the log was read comes with the next step. Later pages come from the
    /// feed.
    async fn step(&self, catalog: &dyn Catalog) -> Result<bool> {
        let noted = self.shared.seen.note();
        if noted.position.is_none() {
            // The feed has not met the log yet.
            return Ok(true);
        }
        let Some(at) = self.ask(move |writer| writer.position(noted.epoch)).await? else {
            self.ask(move |writer| writer.start_over(noted)).await?;
            return Ok(false);
        };
        let page = catalog.changes(at.number, PAGE).await?;
        if page.continued(at).is_none() {
            let position = Some(catalog.head().await?);
            let head = Noted { position, ..noted };
            self.ask(move |writer| writer.start_over(head)).await?;
        } else if page.changes.is_empty() {
            let was_late = self.shared.resync.is_late.swap(false, Ordering::AcqRel);
            return Ok(!was_late);
        } else {
            self.ask(move |writer| writer.apply(&page)).await?;
        }
        Ok(false)
    }

    /// Keeps what a start needs of the catalog.
    async fn read_documents(&self, catalog: &dyn Catalog) -> Result<()> {
        let id = catalog.id().await?;
        let mut documents = Vec::new();
        documents.extend(catalog.document(&CHECK).await?);
        for kind in &self.options.documents {
            documents.extend(catalog.list_documents(kind, None, MAX_DOCUMENTS).await?);
        }
        self.ask(move |writer| writer.keep_documents(id, &documents))
            .await
    }
}

/// Changes in one page.
const PAGE: usize = 1000;
/// Documents of one kind: a start needs few.
const MAX_DOCUMENTS: usize = 16;
/// After the catalog or the disk failed.
const RETRY: Duration = Duration::from_secs(1);
