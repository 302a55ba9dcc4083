//! A catalog as the lookup and the feed ask it: its keys opened, and its log
//! shown to what opens them.

use std::sync::Arc;

use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::seal::{OpenKey, Sealer};
use sekisho_certs::store::{
    Answer, BoxFuture, ChangeLog, ChangePage, LogPosition, Result, Source, Store, StoreError,
};

/// Opens the answers of the catalog that a sealer seals for.
#[derive(Debug)]
pub struct CatalogStore {
    sealer: Sealer,
}

impl CatalogStore {
    /// Takes a sealer and its catalog.
    #[must_use]
    pub fn new(sealer: Sealer) -> Self {
        Self { sealer }
    }

    /// What opens the answers.
    #[must_use]
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Opens an answer, and says whether another one may open where it did
    /// not.
    async fn open(
        &self,
        answer: Answer<SealedBytes>,
    ) -> std::result::Result<Answer<OpenKey>, Unopened> {
        let source = answer.found.as_ref().map(|found| found.source);
        let opened = self.sealer.open_answer(answer).await;
        opened.map_err(|error| match (error, source) {
            (StoreError::Corrupt(why), Some(Source::Level)) => Unopened::AtLevel(why),
            // That a copy can't be used says nothing of what the store has.
            (StoreError::Corrupt(why), Some(Source::StandIn)) => {
                Unopened::Failed(StoreError::Unavailable(why))
            }
            (error, _) => Unopened::Failed(error),
        })
    }
}

/// Why an answer does not open.
enum Unopened {
    /// A level's copy is damaged, or sealed under a key that is gone: the
    /// catalog itself may have better.
    AtLevel(Arc<str>),
    Failed(StoreError),
}

impl From<Unopened> for StoreError {
    fn from(unopened: Unopened) -> Self {
        match unopened {
            Unopened::AtLevel(why) => Self::Corrupt(why),
            Unopened::Failed(error) => error,
        }
    }
}

impl Store for CatalogStore {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(async move {
            let catalog = self.sealer.catalog();
            match self.open(catalog.find(name).await?).await {
                Err(Unopened::AtLevel(why)) => {
                    tracing::debug!(host = %name, %why, "the store itself is asked");
                    let answer = catalog.find_past_level(name).await?;
                    Ok(self.open(answer).await?)
                }
                opened => Ok(opened?),
            }
        })
    }
}

impl ChangeLog for CatalogStore {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        Box::pin(async move {
            let position = self.sealer.catalog().head().await?;
            self.sealer.recognize().await?;
            Ok(position)
        })
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(async move {
            let page = self.sealer.catalog().changes(after, limit).await?;
            self.sealer.follow(&page);
            Ok(page)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.sealer.catalog().changed()
    }
}
