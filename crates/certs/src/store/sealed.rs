//! A catalog whose secrets are plain to its callers and sealed inside.

mod catalog;
mod check;
mod keys;
mod rotate;
mod secrets;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::keys::Keys;
pub use self::rotate::{Resealed, SealedSecret, Walk};

pub use self::check::KIND as CHECK;
use self::check::Known;
use super::{Catalog, CatalogId, Expect, Result, StoreError, Write};

/// Seals what is written and opens what is read, by a ring of master keys.
/// The catalog says which of them seals.
#[derive(Debug)]
pub struct Sealed {
    inner: Arc<dyn Catalog>,
    keys: Keys,
    which: Mutex<Which>,
    known: Known,
}

/// Which catalog it is. Copies of one may have answered before it turns out
/// that another stands in its place.
#[derive(Debug, Default)]
struct Which {
    /// Whose check value the keys have opened.
    opened: Option<CatalogId>,
    /// As the inner catalog last said, when it was asked anew.
    met: Option<CatalogId>,
}

impl Sealed {
    /// Wraps a catalog whose check value these keys open.
    ///
    /// # Errors
    /// [`StoreError::Refused`] for a wrong master key, or for a catalog that
    /// was never sealed; else what the catalog failed with.
    pub async fn open(inner: Arc<dyn Catalog>, keys: impl Into<Keys>) -> Result<Self> {
        let sealed = Self::unopened(inner, keys);
        sealed.reach().await?;
        Ok(sealed)
    }

    /// Wraps a catalog that may be out of reach: the first call that needs the
    /// keys opens it, and fails as [`Sealed::open`] does until one succeeds.
    #[must_use]
    pub fn unopened(inner: Arc<dyn Catalog>, keys: impl Into<Keys>) -> Self {
        Self {
            inner,
            keys: keys.into(),
            which: Mutex::default(),
            known: Known::default(),
        }
    }

    /// Opens it, if it is not open yet.
    ///
    /// # Errors
    /// As [`Sealed::open`].
    pub async fn reach(&self) -> Result<()> {
        self.opened().await.map(|_| ())
    }

    /// Wraps a new catalog: writes the check value under the first key, so
    /// that a wrong key is told apart ever after. An unfinished one is
    /// completed; one that was sealed already is opened.
    ///
    /// # Errors
    /// As [`Sealed::open`]; also if there are credentials but no check value.
    pub async fn create(inner: Arc<dyn Catalog>, keys: impl Into<Keys>) -> Result<Self> {
        let keys = keys.into();
        let first = keys.ring().first();
        Self::create_under(inner, keys, first).await
    }

    /// The same under another key of the ring.
    ///
    /// # Errors
    /// As [`Sealed::create`]; also if the ring has no such key.
    pub async fn create_under(
        inner: Arc<dyn Catalog>,
        keys: impl Into<Keys>,
        key: u32,
    ) -> Result<Self> {
        let sealed = Self::unopened(inner, keys);
        let catalog = sealed.inner.id().await?;
        if sealed.check(catalog).await?.is_some() {
            return Ok(sealed);
        }
        if !sealed.inner.list_credentials(None, 1).await?.is_empty() {
            return Err(StoreError::Refused(
                "the store holds credentials but no check value of a master key; restore it from a backup".into(),
            ));
        }
        let check = sealed.new_check(catalog, &sealed.keys.ring(), key)?;
        let write = Write::PutDocument(check, Expect::Absent);
        match sealed.inner.write(vec![write]).await {
            // Another process was faster, perhaps with another key.
            Ok(_) | Err(StoreError::Conflict(_)) => {}
            Err(error) => return Err(error),
        }
        sealed.check(catalog).await?;
        Ok(sealed)
    }

    /// The catalog that the keys belong to, by its check value. Calls that
    /// come at once each look: none waits behind another.
    async fn opened(&self) -> Result<CatalogId> {
        if let Some(catalog) = self.which().opened {
            return Ok(catalog);
        }
        let catalog = self.inner.id().await?;
        self.check(catalog).await?.ok_or_else(no_check)?;
        let mut which = self.which();
        if which.met.is_some_and(|met| met != catalog) {
            return Err(StoreError::Unavailable(
                "it turned out to be another catalog, which is opened with the next call".into(),
            ));
        }
        which.opened = Some(catalog);
        Ok(catalog)
    }

    /// Asks which catalog it is; another one than before is opened anew.
    async fn meet(&self) -> Result<()> {
        let catalog = self.inner.id().await?;
        let mut which = self.which();
        which.met = Some(catalog);
        which.opened = which.opened.filter(|opened| *opened == catalog);
        Ok(())
    }

    fn which(&self) -> MutexGuard<'_, Which> {
        self.which.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_check() -> StoreError {
    StoreError::Refused(
        "the store has no check value of its master key: its making broke off; import into it again, or remove it".into(),
    )
}
