//! Keeps the file as far as the catalog's log.

use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::writer::Writer;
use super::{DiskCache, Shared};
use sekisho_certs::seal::CHECK;
use sekisho_certs::store::{
    BoxFuture, Catalog, ChangePage, DocumentId, LogPosition, Result, StoreError, Subject,
};
use sekisho_certs::{FeedState, Follower};

/// How the log and the file stand to each other.
#[derive(Debug, Default)]
pub(super) struct Following {
    state: Mutex<State>,
    /// Wakes the resync.
    wanted: Notify,
    /// The resync has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Where the feed is; none before the first contact.
    told: Option<LogPosition>,
    /// The file is not as far as the feed: the resync pages from its number.
    late: bool,
    /// All copies have to be dropped first.
    restart: bool,
    /// Documents have to be read again.
    documents: bool,
}

impl DiskCache {
    /// Follows this catalog's log once a feed tells of it.
    pub fn keep_up(&self, catalog: Arc<dyn Catalog>, runtime: &Handle) {
        let shared = Arc::clone(&self.shared);
        self.resync
            .get_or_init(|| runtime.spawn(async move { shared.keep_up(catalog.as_ref()).await }));
    }
}

impl Follower for DiskCache {
    fn feed_is(&self, state: FeedState) {
        let is_broken = state == FeedState::Broken;
        let was_broken = std::mem::replace(&mut self.shared.outage().is_feed_broken, is_broken);
        // No lookup may need the store for a long time after it is back.
        if was_broken && !is_broken {
            self.store_answered();
        }
    }

    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        let Some(last) = page.changes.last() else {
            return Box::pin(ready(()));
        };
        let shared = &self.shared;
        let mut state = shared.following.lock();
        state.told = Some(LogPosition {
            log: page.log,
            number: last.number,
            mark: page.mark_last.unwrap_or(0),
        });
        if page
            .changes
            .iter()
            .any(|change| shared.keeps(&change.subject))
        {
            state.documents = true;
            shared.following.wanted.notify_one();
        }
        if state.late {
            return Box::pin(ready(()));
        }
        drop(state);
        let page = page.clone();
        Box::pin(async move {
            let applied = shared.ask(move |writer| writer.apply(&page)).await;
            if applied != Some(true) {
                self.late();
            }
        })
    }

    /// At the first contact the file may continue: the resync decides.
    fn start_over(&self, at: LogPosition) -> BoxFuture<'_, ()> {
        let following = &self.shared.following;
        let mut state = following.lock();
        state.restart |= state.told.replace(at).is_some();
        state.documents = true;
        state.late = true;
        following.wanted.notify_one();
        drop(state);
        Box::pin(async move {
            loop {
                let ended = following.ended.notified();
                if !following.lock().late {
                    return;
                }
                ended.await;
            }
        })
    }

    fn late(&self) {
        self.shared.following.lock().late = true;
        self.shared.following.wanted.notify_one();
    }
}

impl Following {
    #[cfg(test)]
    pub(super) fn is_settled(&self) -> bool {
        let state = self.lock();
        !state.late && !state.documents
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn keeps(&self, subject: &Subject) -> bool {
        let is_kept = |id: &DocumentId| *id == CHECK || self.options.documents.contains(&id.kind);
        matches!(subject, Subject::Document(id) if is_kept(id))
    }

    async fn keep_up(&self, catalog: &dyn Catalog) {
        loop {
            self.following.wanted.notified().await;
            loop {
                let done = match self.resync(catalog).await {
                    Ok(()) => self.read_documents(catalog).await,
                    failed => failed,
                };
                let Err(error) = done else { break };
                tracing::debug!(%error, "the disk cache is not up to date");
                sleep(RETRY).await;
            }
        }
    }

    /// Ends when the file is as far as the feed.
    async fn resync(&self, catalog: &dyn Catalog) -> Result<()> {
        loop {
            let (told, restart) = {
                let state = self.following.lock();
                (state.told, state.restart)
            };
            let Some(told) = told else { return Ok(()) };
            let at = self.turn(|writer| writer.position()).await?;
            let Some(at) = at.filter(|at| at.log == told.log && !restart) else {
                self.turn(move |writer| writer.start_over(Some(told)))
                    .await?;
                self.restarted(told);
                continue;
            };
            if self.is_up_to_date(at) {
                return Ok(());
            }
            let page = catalog.changes(at.number, PAGE).await?;
            match page.continued(at).is_some() && !page.changes.is_empty() {
                true => _ = self.turn(move |writer| writer.apply(&page)).await?,
                false => {
                    let end = catalog.head().await?;
                    self.turn(move |writer| writer.start_over(Some(end)))
                        .await?;
                }
            }
        }
    }

    fn restarted(&self, at: LogPosition) {
        let mut state = self.following.lock();
        // Another start-over may have come meanwhile.
        state.restart &= state
            .told
            .is_some_and(|told| told.log != at.log || told.number < at.number);
    }

    /// Whether the file is as far as the feed; then it is given pages again.
    fn is_up_to_date(&self, at: LogPosition) -> bool {
        let mut state = self.following.lock();
        let is_as_far = |told: LogPosition| told.log == at.log && told.number <= at.number;
        if state.told.is_some_and(is_as_far) && !state.restart {
            state.late = false;
            self.following.ended.notify_waiters();
        }
        !state.late
    }

    /// Keeps what a start needs of the catalog.
    async fn read_documents(&self, catalog: &dyn Catalog) -> Result<()> {
        if !std::mem::take(&mut self.following.lock().documents) {
            return Ok(());
        }
        let read = async {
            let id = catalog.id().await?;
            let mut documents = Vec::new();
            documents.extend(catalog.document(&CHECK).await?);
            for kind in &self.options.documents {
                documents.extend(catalog.list_documents(kind, None, DOCUMENTS).await?);
            }
            self.turn(move |writer| writer.keep_documents(id, documents))
                .await
        };
        let read = read.await;
        if read.is_err() {
            self.following.lock().documents = true;
        }
        read
    }

    async fn turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> T + Send + 'static,
    ) -> Result<T> {
        let done = self.ask(work).await;
        done.ok_or_else(|| StoreError::Unavailable("the disk is too slow".into()))
    }
}

/// Changes in one page.
const PAGE: usize = 1000;
/// Documents of one kind: a start needs few.
const DOCUMENTS: usize = 16;
/// After the catalog or the disk failed.
const RETRY: Duration = Duration::from_secs(1);
