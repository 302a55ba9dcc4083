//! Copies of what a catalog says, and how its log drops them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;

use super::Copies;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::log::Begun;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::{Batch, CHECK};
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, Change, ChangeLog, ChangePage, Document, Found, Lease,
    LogPosition, Result, Source, StoreError, Subject,
};

/// Answers for a catalog that is down. See [`super`]. It stands beneath the
/// wrapper that opens secrets, and above all that reaches the network.
#[derive(Debug)]
pub struct Warm {
    copies: Copies,
    /// One at a time moves along the log.
    following: Mutex<()>,
    inner: Arc<dyn Catalog>,
}

impl Warm {
    /// Wraps a catalog.
    #[must_use]
    pub fn new(inner: Arc<dyn Catalog>, copies: Copies) -> Self {
        Self {
            copies,
            following: Mutex::default(),
            inner,
        }
    }

    /// Keeps what the call gives, or stands in for it. The call is made here: a
    /// store may answer at once, and what changes after that must be seen.
    async fn asked<'a>(
        &self,
        name: &HostName,
        call: impl FnOnce() -> BoxFuture<'a, Result<Answer<SealedBytes>>>,
    ) -> Result<Answer<SealedBytes>> {
        let begun = self.copies.recent().begun();
        match call().await {
            Ok(answer) => {
                let found = answer.found.as_ref();
                if found.is_none_or(|found| found.source != Source::StandIn) {
                    self.copies.store_answered();
                }
                if let Some(found) = found {
                    self.keep(name, found, begun);
                }
                Ok(answer)
            }
            Err(error) if error.is_retryable() => {
                let found = self.copies.find(name, &error).await;
                found.map_or(Err(error), |found| Ok(Answer::found(found)))
            }
            Err(error) => Err(error),
        }
    }

    fn keep(&self, name: &HostName, found: &Found<SealedBytes>, begun: Begun) {
        if let Some(mark) = self.copies.unseen(name, found) {
            self.copies.keep(name, found.clone(), mark, Some(begun));
        }
    }

    fn keep_document(&self, kind: &str, key: &str, said: Option<&Document<SealedBytes>>) {
        if !self.copies.keeps(kind) {
            return;
        }
        let (kind, key) = (kind.to_owned(), key.to_owned());
        match said.cloned() {
            Some(document) => self.copies.post(|keeper| keeper.put_document(document)),
            None => self
                .copies
                .post(move |keeper| keeper.drop_document(&kind, &key)),
        }
    }

    /// The catalog's id is learnt: copies of another are dropped.
    fn is_of(&self, catalog: CatalogId) {
        let known = self.copies.catalog().replace(catalog);
        if known == Some(catalog) {
            return;
        }
        if known.is_some() {
            tracing::error!(
                "the store is another catalog than the one that the copies on disk are of; \
                 they are dropped"
            );
        }
        let mut recent = self.copies.recent();
        if known.is_some() {
            // What was read of the other one is not kept as of this one.
            recent.forget();
        }
        self.copies.must(move |keeper| keeper.belong_to(catalog));
    }

    /// Applies the log up to that place at least.
    async fn catch_up(&self, to: LogPosition) -> Result<()> {
        let to = LogPosition { mark: 0, ..to };
        let _one = self.following.lock().await;
        for _ in 0..MOST_PAGES {
            let at = match self.copies.position() {
                Some(at) if at == to => return Ok(()),
                Some(at) if at.log == to.log => at,
                _ => return self.start_over(to).await,
            };
            let page = self.inner.changes(at.number, PAGE).await?;
            if page.log != at.log || page.gap {
                let (log, number) = (page.log, page.last);
                return self
                    .start_over(LogPosition {
                        log,
                        number,
                        mark: 0,
                    })
                    .await;
            }
            if page.changes.is_empty() {
                return Ok(());
            }
            self.apply(&page).await;
        }
        // So far behind that reading on takes longer than filling again.
        let to = self.inner.head().await?;
        self.start_over(to).await
    }

    /// Drops all copies.
    async fn start_over(&self, position: LogPosition) -> Result<()> {
        let done = {
            let mut recent = self.copies.recent();
            recent.restart(LogPosition {
                mark: 0,
                ..position
            });
            self.copies
                .must(move |keeper| keeper.start_over(Some(position)))
        };
        settled(done).await;
        self.learn_check().await;
        Ok(())
    }

    /// Drops the copies of what a page tells of, which continues what was
    /// applied.
    async fn apply(&self, page: &ChangePage) {
        let Some(last) = page.changes.last() else {
            return;
        };
        let position = LogPosition {
            log: page.log,
            number: last.number,
            mark: 0,
        };
        let is_kept = |change: &&Change| match &change.subject {
            Subject::Host(_) | Subject::Credential(_) => true,
            Subject::Document { kind, .. } => self.copies.keeps(kind),
        };
        let changes: Vec<_> = page.changes.iter().filter(is_kept).cloned().collect();
        let is_check = |change: &Change| matches!(&change.subject, Subject::Document { kind, .. } if kind == CHECK);
        let concerns_check = changes.iter().any(is_check);
        let done = {
            // Who reads the log's place sees both or neither.
            let mut recent = self.copies.recent();
            page.changes.iter().for_each(|change| recent.push(change));
            self.copies
                .must(move |keeper| keeper.apply(&changes, position))
        };
        settled(done).await;
        if concerns_check {
            self.learn_check().await;
        }
    }

    /// Nobody else reads the check value again, and without it no copy opens
    /// after a restart.
    async fn learn_check(&self) {
        // One that fails is learnt at the next start with the store.
        let _ = self.document(CHECK, "").await;
    }
}

/// Waits until the disk has it, so that a crash does not bring back what
/// changed; a slow disk holds up no change.
async fn settled(done: oneshot::Receiver<()>) {
    let _ = timeout(PATIENCE, done).await;
}

#[deny(clippy::missing_trait_methods)]
impl ChangeLog for Warm {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        Box::pin(async move {
            self.is_of(self.inner.id().await?);
            let position = self.inner.head().await?;
            self.catch_up(position).await?;
            self.copies.store_answered();
            Ok(position)
        })
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(async move {
            let page = self.inner.changes(after, limit).await?;
            let (log, number) = (page.log, after);
            let following = self.following.lock().await;
            let mark = 0;
            let at = LogPosition { log, number, mark };
            if self.copies.position() == Some(at) && !page.gap {
                self.apply(&page).await;
                return Ok(page);
            }
            drop(following);
            let (log, number) = (page.log, page.last);
            self.catch_up(LogPosition { log, number, mark }).await?;
            Ok(page)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.inner.changed()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Catalog for Warm {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(async move {
            let known = *self.copies.catalog();
            if let Some(known) = known.filter(|_| self.copies.failed_lately()) {
                return Ok(known);
            }
            match self.inner.id().await {
                Ok(id) => {
                    self.is_of(id);
                    Ok(id)
                }
                Err(error) if error.is_retryable() && known.is_some() => {
                    // The thread has counted the copies by then.
                    self.copies.ask(|_| ()).await;
                    self.copies.stood_in(&error);
                    known.ok_or(error)
                }
                Err(error) => Err(error),
            }
        })
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.asked(name, || self.inner.find(name)))
    }

    fn find_past_level<'a>(
        &'a self,
        name: &'a HostName,
    ) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.asked(name, || self.inner.find_past_level(name)))
    }

    /// The batch may be sealed for the catalog that [`Self::id`] has given for
    /// one out of reach.
    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let known = *self.copies.catalog();
            let catalog = self.inner.id().await?;
            self.is_of(catalog);
            if known.is_some_and(|known| known != catalog) {
                return Err(StoreError::Unavailable(
                    "it is another catalog than it was; nothing was written".into(),
                ));
            }
            self.inner.write(batch).await
        })
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        self.inner.hosts(patterns)
    }

    fn list_hosts<'a>(
        &'a self,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        self.inner.list_hosts(after, limit)
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        self.inner.hosts_of(id, after, limit)
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        self.inner.credentials(ids)
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential<SealedBytes>>>> {
        self.inner.list_credentials(after, limit)
    }

    fn document<'a>(
        &'a self,
        kind: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        Box::pin(async move {
            if self.copies.failed_lately()
                && let Some(known) = self.copies.document(kind, key).await
            {
                return Ok(Some(known));
            }
            match self.inner.document(kind, key).await {
                Ok(said) => {
                    self.keep_document(kind, key, said.as_ref());
                    Ok(said)
                }
                Err(error) if error.is_retryable() => {
                    let known = self.copies.document(kind, key).await;
                    if known.is_some() {
                        self.copies.stood_in(&error);
                    }
                    known.map(Some).ok_or(error)
                }
                Err(error) => Err(error),
            }
        })
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        self.inner.list_documents(kind, after, limit)
    }

    fn kind_after<'a>(&'a self, after: &'a str) -> BoxFuture<'a, Result<Option<String>>> {
        self.inner.kind_after(after)
    }

    fn lease<'a>(
        &'a self,
        name: &'a str,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>>> {
        self.inner.lease(name, holder, ttl)
    }

    fn release<'a>(&'a self, name: &'a str, holder: &'a str) -> BoxFuture<'a, Result<()>> {
        self.inner.release(name, holder)
    }
}

/// Changes in one page.
const PAGE: usize = 1000;
/// As many changes as a catalog keeps by default.
const MOST_PAGES: usize = 100;
/// A change must be everywhere within a tenth of a second.
const PATIENCE: Duration = Duration::from_millis(20);
