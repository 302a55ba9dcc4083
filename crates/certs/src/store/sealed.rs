//! A catalog whose secrets are plain to its callers and sealed inside.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::{
    Answer, BoxFuture, Catalog, CatalogId, ChangePage, Document, Expect, Lease, Position, Result,
    Store, StoreError, Write, expect,
};
use crate::credential::{CredentialId, Protected, Secret, StoredCredential};
use crate::host::{HostName, HostPattern};
use crate::record::HostRecord;
use crate::seal::{Bound, KeyRing, UnsealError};

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

    fn seal_credential(
        &self,
        catalog: CatalogId,
        mut credential: StoredCredential,
    ) -> Result<StoredCredential> {
        let id = credential.id;
        let Some(secret) = credential.key.secret() else {
            return Err(sealed_already(&id));
        };
        let sealed = self.ring.seal(secret, &bound(catalog, &credential)?);
        credential.key = Protected::Sealed(sealed);
        Ok(credential)
    }

    fn open_credential(
        &self,
        catalog: CatalogId,
        mut credential: StoredCredential,
    ) -> Result<StoredCredential> {
        let id = credential.id;
        let nothing = Protected::Plain(Secret::new(Vec::new()));
        let Protected::Sealed(sealed) = std::mem::replace(&mut credential.key, nothing) else {
            return Err(not_sealed(&id));
        };
        let opened = self.ring.unseal(sealed, &bound(catalog, &credential)?);
        let secret = opened.map_err(|why| does_not_open(&id, why))?;
        credential.key = Protected::Opened(secret);
        Ok(credential)
    }

    fn seal_document(&self, catalog: CatalogId, mut document: Document) -> Result<Document> {
        let shown = expect::document(&document.kind, &document.key);
        let Some(secret) = document.bytes.secret() else {
            return Err(sealed_already(&shown));
        };
        let sealed = self.ring.seal(secret, &place(catalog, &document));
        document.bytes = Protected::Sealed(sealed);
        Ok(document)
    }

    fn open_document(&self, catalog: CatalogId, mut document: Document) -> Result<Document> {
        let shown = expect::document(&document.kind, &document.key);
        let nothing = Protected::Plain(Secret::new(Vec::new()));
        let Protected::Sealed(sealed) = std::mem::replace(&mut document.bytes, nothing) else {
            return Err(not_sealed(&shown));
        };
        let opened = self.ring.unseal(sealed, &place(catalog, &document));
        let secret = opened.map_err(|why| does_not_open(&shown, why))?;
        document.bytes = Protected::Opened(secret);
        Ok(document)
    }

    fn seal_write(&self, catalog: CatalogId, write: Write) -> Result<Write> {
        Ok(match write {
            Write::PutCredential(credential, expect) => {
                Write::PutCredential(self.seal_credential(catalog, credential)?, expect)
            }
            Write::PutDocument(document, expect) => {
                Write::PutDocument(self.seal_document(catalog, document)?, expect)
            }
            plain @ (Write::PutHost(..) | Write::RemoveHost(..) | Write::RemoveDocument { .. }) => {
                plain
            }
        })
    }
}

impl Store for Sealed {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let Answer::Found(mut found) = self.inner.find(name).await? else {
                return Ok(Answer::Absent);
            };
            let catalog = self.opened().await?;
            let credentials = std::mem::take(&mut found.credentials).into_iter();
            let credentials = credentials.map(|one| self.open_credential(catalog, one));
            found.credentials = credentials.collect::<Result<_>>()?;
            Ok(Answer::Found(found))
        })
    }
}

impl Catalog for Sealed {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        self.inner.id()
    }

    fn position(&self) -> BoxFuture<'_, Result<Position>> {
        self.inner.position()
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        self.inner.changes(after, limit)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.inner.changed()
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let catalog = self.opened().await?;
            let sealed = batch.into_iter();
            let sealed = sealed.map(|write| self.seal_write(catalog, write));
            self.inner.write(sealed.collect::<Result<_>>()?).await
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
    ) -> BoxFuture<'a, Result<Vec<StoredCredential>>> {
        Box::pin(async move {
            let stored = self.inner.credentials(ids).await?.into_iter();
            let catalog = self.opened().await?;
            stored
                .map(|one| self.open_credential(catalog, one))
                .collect()
        })
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential>>> {
        Box::pin(async move {
            let stored = self.inner.list_credentials(after, limit).await?;
            let catalog = self.opened().await?;
            let opened = stored.into_iter();
            opened
                .map(|one| self.open_credential(catalog, one))
                .collect()
        })
    }

    fn due(&self, until: i64, limit: usize) -> BoxFuture<'_, Result<Vec<CredentialId>>> {
        self.inner.due(until, limit)
    }

    fn document<'a>(
        &'a self,
        kind: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>>> {
        Box::pin(async move {
            let document = self.inner.document(kind, key).await?;
            let catalog = self.opened().await?;
            document
                .map(|one| self.open_document(catalog, one))
                .transpose()
        })
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>>> {
        Box::pin(async move {
            let stored = self.inner.list_documents(kind, after, limit).await?;
            let catalog = self.opened().await?;
            let opened = stored.into_iter();
            opened.map(|one| self.open_document(catalog, one)).collect()
        })
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

fn bound(catalog: CatalogId, credential: &StoredCredential) -> Result<Bound<'_>> {
    let id = credential.id;
    let spki = credential
        .spki()
        .ok_or_else(|| StoreError::Corrupt(format!("the leaf of {id} is no certificate").into()))?;
    Ok(Bound::Key {
        catalog,
        credential: id,
        spki,
    })
}

fn place(catalog: CatalogId, document: &Document) -> Bound<'_> {
    Bound::Document {
        catalog,
        kind: &document.kind,
        key: &document.key,
    }
}

fn does_not_open(of: &dyn Display, why: UnsealError) -> StoreError {
    StoreError::Corrupt(format!("the secret of {of} does not open: {why}").into())
}

fn not_sealed(of: &dyn Display) -> StoreError {
    StoreError::Corrupt(format!("the secret of {of} lies in the store in the clear").into())
}

fn sealed_already(of: &dyn Display) -> StoreError {
    StoreError::Refused(format!("the secret of {of} is sealed already").into())
}

/// The check value's kind and content.
pub(super) const CHECK: &str = "check";
