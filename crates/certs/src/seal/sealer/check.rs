//! The check value: a document that tells a wrong master key, and which key
//! seals. All processes seal under the key of the check value; replacing it
//! changes the key.

use std::future::ready;

use super::Sealer;
use crate::credential::{SealedBytes, Secret};
use crate::seal::{Bound, KeyRing};
use crate::store::{
    BoxFuture, CatalogId, ChangePage, Document, DocumentId, DocumentKind, FeedState, Follower,
    LogPosition, Result, StoreError, Subject,
};

/// Check value as it was last read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Check {
    /// The key that it is sealed under.
    pub(super) key: u32,
    pub(super) version: u64,
}

/// State of the catalog and its check value, as this process knows them.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Catalog whose check value the keys opened.
    pub(super) opened: Option<CatalogId>,
    /// Catalog that answered when it was last asked for its id. Copies of
    /// another one may have answered before.
    pub(super) recognized: Option<CatalogId>,
    /// Check value as it was last read.
    pub(super) check: Option<Check>,
    /// Set while the check value may be another than the one known, could not be
    /// read, or is sealed under a key that is missing.
    is_stale: bool,
    /// Set while a task reads the check value.
    is_reading: bool,
    /// The sealing key that was logged as missing.
    missing: Option<u32>,
}

impl Sealer {
    /// Reads the check value and tries to open it; none if there is none.
    pub(super) async fn check(&self, catalog: CatalogId) -> Result<Option<Check>> {
        match self.catalog().document(&CHECK).await? {
            Some(document) => Ok(Some(self.open_check(catalog, document).await?)),
            None => Ok(None),
        }
    }

    /// Tries to open a check value.
    pub(super) async fn open_check(
        &self,
        catalog: CatalogId,
        document: Document<SealedBytes>,
    ) -> Result<Check> {
        let check = self.note_check(&document);
        let ring = self.0.keys.with(check.key).await;
        let opened = ring.unseal(document.bytes, &Bound::document(catalog, &CHECK));
        opened.map(|_| check).map_err(|why| wrong(&ring, &why))
    }

    /// Reads which key seals, whether this process has it or not.
    pub(super) async fn learn(&self) -> Result<Option<Check>> {
        let document = self.catalog().document(&CHECK).await?;
        Ok(document.map(|document| self.note_check(&document)))
    }

    fn note_check(&self, document: &Document<SealedBytes>) -> Check {
        let check = Check {
            key: document.bytes.key_id,
            version: document.version,
        };
        self.known().check = Some(check);
        check
    }

    /// Makes a check value under this key.
    pub(super) async fn new_check(
        &self,
        catalog: CatalogId,
        key: u32,
    ) -> Result<Document<SealedBytes>> {
        let content = Secret::new(CHECK.kind.as_str().into());
        let bound = Bound::document(catalog, &CHECK);
        Ok(Document::new(
            CHECK,
            self.seal(key, &content, &bound).await?,
        ))
    }

    /// Reads in the background which catalog answers and which key seals, if
    /// [`Known::is_stale`]. What could not be read stays stale, and is tried
    /// again with the next page or report of the feed.
    fn read_if_stale(&self) {
        let mut known = self.known();
        // Opening the catalog reads the check value too.
        if known.is_stale && !known.is_reading && known.opened.is_some() {
            known.is_reading = true;
            let sealer = self.clone();
            tokio::spawn(async move { sealer.read_stale().await });
        }
    }

    async fn read_stale(&self) {
        // A page may tell of the next check value while this one is read.
        self.known().is_stale = false;
        let has_it = self.recognize().await.is_ok()
            && match self.learn().await {
                Ok(Some(check)) => {
                    let has_it = self.0.keys.with(check.key).await.has(check.key);
                    self.log_missing(check.key, has_it);
                    has_it
                }
                Ok(None) | Err(_) => false,
            };
        let mut known = self.known();
        known.is_stale |= !has_it;
        known.is_reading = false;
    }

    /// Logs once that the key that seals is missing, and once that it is back.
    fn log_missing(&self, key: u32, has_it: bool) {
        let mut known = self.known();
        if has_it {
            if known.missing.take().is_some() {
                tracing::info!(key = %format_args!("{key:08x}"), "the sealing master key was found");
            }
        } else if !self.0.keys.is_reloading() && known.missing.replace(key) != Some(key) {
            let error = self.missing_key(key);
            tracing::error!(%error, "secrets under the new master key can't be opened: their hosts fail");
        }
    }

    /// Makes the error for a missing sealing key: what is wrong, and what to
    /// do.
    pub(super) fn missing_key(&self, key: u32) -> StoreError {
        StoreError::Refused(
            format!(
                "the store seals under the master key {key:08x}, which is not in {}: add it \
                 there, it is looked for again; until then nothing is sealed here",
                self.0.keys.describe()
            )
            .into(),
        )
    }
}

/// No page waits: reading is only begun.
impl Follower for Sealer {
    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        let is_check = |subject: &Subject| matches!(subject, Subject::Document(id) if *id == CHECK);
        if page.changes.iter().any(|change| is_check(&change.subject)) {
            self.known().is_stale = true;
        }
        self.read_if_stale();
        Box::pin(ready(()))
    }

    fn start_over(&self, _: LogPosition) -> BoxFuture<'_, ()> {
        self.known().is_stale = true;
        self.read_if_stale();
        Box::pin(ready(()))
    }

    /// Tries again what could not be read.
    fn feed_is(&self, state: FeedState) {
        if state == FeedState::Healthy {
            self.read_if_stale();
        }
    }
}

fn wrong(ring: &KeyRing, why: &dyn std::fmt::Display) -> StoreError {
    let ids: Vec<_> = ring.ids().map(|id| format!("{id:08x}")).collect();
    let ids = ids.join(", ");
    StoreError::Refused(
        format!(
            "wrong master key {ids}: the check value does not open: {why}; give the key that the store seals under"
        )
        .into(),
    )
}

/// The document that is the check value; its kind is its content. It belongs
/// to one catalog and is never copied into another.
pub const CHECK: DocumentId = DocumentId::known(DocumentKind::new("check"), "");
