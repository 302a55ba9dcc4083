//! Seals what is written to a catalog and opens what is read from it.

mod check;
mod rotate;
mod secrets;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::check::CHECK;
pub use self::rotate::{Resealed, SealedSecret, Walk};

use self::check::Known;
use super::{Batch, KeyRing, Keys};
use crate::credential::{SealedBytes, Secret};
use crate::store::{
    Catalog, CatalogId, CredentialFilter, Document, Precondition, Result, Seen, StoreError, Write,
};

/// The master keys for one catalog, whose check value says which of them
/// seals. Clones share what they know.
///
/// - Nothing is sealed under an old key once another seals: each batch
///   requires the check value that its key was taken by.
/// - A key that is met and not there is looked for in its source again.
/// - Nothing that was sealed for one catalog is written to another that stands
///   in its place.
#[derive(Clone, Debug)]
pub struct Sealer(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    catalog: Arc<dyn Catalog>,
    keys: Keys,
    known: Mutex<Known>,
    seen: Arc<Seen>,
}

impl Sealer {
    /// Takes a catalog whose check value these keys open.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a wrong master key, or for a catalog that
    /// was never sealed; else what the catalog failed with.
    pub async fn open(catalog: Arc<dyn Catalog>, keys: impl Into<Keys>) -> Result<Self> {
        let sealer = Self::unopened(catalog, keys);
        sealer.ensure_open().await?;
        Ok(sealer)
    }

    /// Takes a catalog that may be out of reach: the first call that needs the
    /// keys opens it, and fails as [`Sealer::open`] does until one succeeds.
    #[must_use]
    pub fn unopened(catalog: Arc<dyn Catalog>, keys: impl Into<Keys>) -> Self {
        Self(Arc::new(Inner {
            catalog,
            keys: keys.into(),
            known: Mutex::default(),
            seen: Arc::default(),
        }))
    }

    /// Opens the catalog's check value, if that was not done yet.
    ///
    /// # Errors
    /// As [`Sealer::open`].
    pub async fn ensure_open(&self) -> Result<()> {
        self.opened().await.map(|_| ())
    }

    /// Initializes a new catalog: writes the check value under the first key,
    /// which tells a wrong key ever after. An unfinished catalog is completed,
    /// a sealed one is opened.
    ///
    /// # Errors
    /// As [`Sealer::open`]; also if there are credentials but no check value.
    pub async fn create(catalog: Arc<dyn Catalog>, keys: impl Into<Keys>) -> Result<Self> {
        let keys = keys.into();
        let first = keys.ring().first();
        Self::create_under(catalog, keys, first).await
    }

    /// Initializes a new catalog under another key of the ring than the first.
    ///
    /// # Errors
    /// As [`Sealer::create`]; also if the ring has no such key.
    pub async fn create_under(
        catalog: Arc<dyn Catalog>,
        keys: impl Into<Keys>,
        key: u32,
    ) -> Result<Self> {
        let sealer = Self::unopened(catalog, keys);
        let id = sealer.catalog().id().await?;
        if sealer.check(id).await?.is_some() {
            sealer.known().opened.get_or_insert(id);
            return Ok(sealer);
        }
        let all = CredentialFilter::All;
        let page = sealer.catalog().list_credentials(&all, None, 1).await?;
        if !page.credentials.is_empty() {
            return Err(StoreError::Refused(
                "the store holds credentials but no check value of a master key; restore it from a backup".into(),
            ));
        }
        let check = sealer.new_check(id, key).await?;
        let batch = Batch::of_check(check, Precondition::Absent);
        match sealer.catalog().write(batch).await {
            // Another process was faster, perhaps with another key.
            Ok(_) | Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
        if sealer.check(id).await?.is_some() {
            sealer.known().opened.get_or_insert(id);
        }
        Ok(sealer)
    }

    /// Returns the catalog that is sealed for.
    #[must_use]
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.0.catalog
    }

    /// Returns how far this process has seen the catalog's log. The feed raises
    /// it, and so does each write.
    #[must_use]
    pub fn seen(&self) -> &Arc<Seen> {
        &self.0.seen
    }

    /// Returns the keys of this process.
    #[must_use]
    pub fn ring(&self) -> Arc<KeyRing> {
        self.0.keys.ring()
    }

    /// Seals these operations and writes them as one transaction; gives what
    /// [`Catalog::write`] does. Seals again if another key seals by then.
    ///
    /// # Errors
    /// [`StoreError::Refused`] without the key that seals, where there is a
    /// secret to seal; [`StoreError::Unavailable`] if another catalog stands in
    /// the place of the one that was opened; else what the catalog failed with.
    pub async fn write(&self, writes: Vec<Write<Secret>>) -> Result<u64> {
        // A secret that is sealed for one catalog must not land in another.
        self.recognize().await?;
        let mut retries = 0..MAX_RETRIES;
        loop {
            let (batch, check) = self.batch(&writes).await?;
            match self.catalog().write(batch).await {
                // By the caller's own expectations, or because another key
                // seals by now.
                Err(StoreError::Conflict(_))
                    if retries.next().is_some() && self.learn().await? != Some(check) => {}
                other => return other.inspect(|number| self.0.seen.wrote(*number)),
            }
        }
    }

    /// Writes as [`Sealer::write`] does. Returns false if a precondition did not hold.
    ///
    /// # Errors
    /// As [`Sealer::write`], but for a conflict.
    pub async fn try_write(&self, writes: Vec<Write<Secret>>) -> Result<bool> {
        match self.write(writes).await {
            Ok(_) => Ok(true),
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a catalog that is out of reach by what was known of it: its id and
    /// its check value. That holds until the catalog is first recognized.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a wrong master key.
    pub async fn open_with(&self, id: CatalogId, check: Document<SealedBytes>) -> Result<()> {
        self.open_check(id, check).await?;
        self.known().opened.get_or_insert(id);
        Ok(())
    }

    /// Asks which catalog answers. Another one than before is opened anew, by
    /// the next call that needs the keys.
    ///
    /// # Errors
    /// The catalog's failure.
    pub async fn recognize(&self) -> Result<()> {
        let catalog = self.catalog().id().await?;
        let mut known = self.known();
        known.recognized = Some(catalog);
        known.opened = known.opened.filter(|opened| *opened == catalog);
        Ok(())
    }

    /// Returns the catalog that the keys belong to, by its check value.
    /// Concurrent calls each ask: none waits behind another.
    async fn opened(&self) -> Result<CatalogId> {
        if let Some(catalog) = self.known().opened {
            return Ok(catalog);
        }
        let catalog = self.catalog().id().await?;
        self.check(catalog).await?.ok_or_else(no_check)?;
        let mut known = self.known();
        if known.recognized.is_some_and(|other| other != catalog) {
            return Err(StoreError::Unavailable(
                "it turned out to be another catalog, which is opened with the next call".into(),
            ));
        }
        known.opened = Some(catalog);
        Ok(catalog)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_check() -> StoreError {
    StoreError::Refused(
        "the store has no check value of its master key: its making broke off; import into it again, or remove it".into(),
    )
}

/// More means that others change the key without pause.
const MAX_RETRIES: usize = 2;
