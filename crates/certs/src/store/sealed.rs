//! A catalog whose secrets are plain to its callers and sealed inside.

mod catalog;
mod secrets;

use std::sync::{Arc, OnceLock};

use super::{Catalog, CatalogId, Document, Expect, Result, StoreError, Write};
use crate::credential::{Protected, Secret};
use crate::seal::KeyRing;

/// Seals what is written and opens what is read, by a ring of master keys.
#[derive(Debug)]
pub struct Sealed {
    inner: Arc<dyn Catalog>,
    ring: KeyRing,
    /// Whose check value the keys have opened.
    opened: OnceLock<CatalogId>,
}

impl Sealed {
    /// Wraps a catalog whose check value these keys open.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a wrong master key, or for a catalog that
    /// was never sealed; else what the catalog failed with.
    pub async fn open(inner: Arc<dyn Catalog>, ring: KeyRing) -> Result<Self> {
        let sealed = Self::unopened(inner, ring);
        sealed.reach().await?;
        Ok(sealed)
    }

    /// Wraps a catalog that may be out of reach: the first call that needs the
    /// keys opens it, and fails as [`Sealed::open`] does until one succeeds.
    #[must_use]
    pub fn unopened(inner: Arc<dyn Catalog>, ring: KeyRing) -> Self {
        Self {
            inner,
            ring,
            opened: OnceLock::new(),
        }
    }

    /// Opens it, if it is not open yet.
    ///
    /// # Errors
    /// As [`Sealed::open`].
    pub async fn reach(&self) -> Result<()> {
        self.opened().await.map(|_| ())
    }

    /// Wraps a new catalog: writes the check value, so that a wrong key is
    /// told apart ever after. An unfinished one is completed; one that was
    /// sealed already is opened.
    ///
    /// # Errors
    /// As [`Sealed::open`]; also if there are credentials but no check value.
    pub async fn create(inner: Arc<dyn Catalog>, ring: KeyRing) -> Result<Self> {
        let sealed = Self::unopened(inner, ring);
        let catalog = sealed.inner.id().await?;
        if sealed.check(catalog).await? {
            return Ok(sealed);
        }
        if !sealed.inner.list_credentials(None, 1).await?.is_empty() {
            return Err(StoreError::Refused(
                "the store holds credentials but no check value of a master key; restore it from a backup".into(),
            ));
        }
        let check = Document {
            kind: CHECK.to_owned(),
            key: String::new(),
            bytes: Protected::Plain(Secret::new(CHECK.into())),
            expires: None,
            version: 0,
        };
        let check = sealed.seal_document(catalog, check)?;
        let write = Write::PutDocument(check, Expect::Absent);
        match sealed.inner.write(vec![write]).await {
            // Another process was faster, perhaps with another key.
            Err(StoreError::Conflict(_)) => {
                sealed.check(catalog).await?;
            }
            other => {
                other?;
            }
        }
        Ok(sealed)
    }

    /// The catalog that the keys belong to, by its check value. Calls that
    /// come at once each look: none waits behind another.
    async fn opened(&self) -> Result<CatalogId> {
        if let Some(catalog) = self.opened.get() {
            return Ok(*catalog);
        }
        let catalog = self.inner.id().await?;
        if !self.check(catalog).await? {
            return Err(StoreError::Refused(
                "the store has no check value of its master key: its making broke off; import into it again, or remove it".into(),
            ));
        }
        Ok(*self.opened.get_or_init(|| catalog))
    }

    /// Whether the check value is there; an error if it does not open.
    async fn check(&self, catalog: CatalogId) -> Result<bool> {
        let Some(check) = self.inner.document(CHECK, "").await? else {
            return Ok(false);
        };
        let current = self.ring.current();
        self.open_document(catalog, check).map(|_| true).map_err(|why| {
            StoreError::Refused(
                format!(
                    "wrong master key {current:08x}: {why}; give the one that the store was made with"
                )
                .into(),
            )
        })
    }
}

/// The check value's kind and content.
const CHECK: &str = "check";
