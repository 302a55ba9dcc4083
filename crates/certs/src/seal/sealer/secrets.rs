//! Single secrets, sealed and opened where they stand.

use std::fmt::Display;
use std::sync::Arc;

use super::check::{Check, KEY_TIMEOUT};
use super::{Sealer, no_check};
use crate::credential::{SealedBytes, Secret, StoredCredential};
use crate::seal::{Batch, Bound, KeyRing, OpenKey, UnsealError};
use crate::store::{Answer, CatalogId, Document, DocumentId, Found, Result, StoreError, Write};

/// Key of a ring that seals for one catalog.
#[derive(Debug)]
pub(super) struct SealingKey {
    pub(super) catalog: CatalogId,
    pub(super) ring: Arc<KeyRing>,
    pub(super) check: Check,
}

impl SealingKey {
    pub(super) fn seal(&self, secret: &Secret, bound: &Bound<'_>) -> Result<SealedBytes> {
        let sealed = self.ring.seal_under(self.check.key, secret, bound);
        sealed.ok_or_else(|| StoreError::Refused("the key that seals is not there".into()))
    }
}

impl Sealer {
    /// Opens the keys of an answer.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] for a key that does not open; else as
    /// [`Sealer::open`].
    pub async fn open_answer(&self, answer: Answer<SealedBytes>) -> Result<Answer<OpenKey>> {
        let found = match answer.found {
            None => None,
            Some(found) => Some(Box::new(Found {
                record: found.record,
                credentials: self.open_credentials(found.credentials).await?,
                shadowed: found.shadowed,
                fresh_for: found.fresh_for,
            })),
        };
        Ok(Answer {
            read_at: answer.read_at,
            found,
            is_stale: answer.is_stale,
        })
    }

    /// Opens the keys of credentials.
    ///
    /// # Errors
    /// As [`Sealer::open_answer`].
    pub async fn open_credentials(
        &self,
        stored: Vec<StoredCredential<SealedBytes>>,
    ) -> Result<Vec<StoredCredential<OpenKey>>> {
        let catalog = self.opened().await?;
        let mut open = Vec::with_capacity(stored.len());
        for credential in stored {
            open.push(self.open_credential(catalog, credential).await?);
        }
        Ok(open)
    }

    /// Opens a document.
    ///
    /// # Errors
    /// As [`Sealer::open_answer`].
    pub async fn open_document(&self, stored: Document<SealedBytes>) -> Result<Document<Secret>> {
        let catalog = self.opened().await?;
        let ring = self.0.keys.with(stored.bytes.key_id, KEY_TIMEOUT).await;
        let opened = ring.unseal(stored.bytes.clone(), &place(catalog, &stored));
        let opened = opened.map_err(|why| does_not_open(&stored.id, why))?;
        Ok(stored.with_bytes(opened))
    }

    /// Reads one document and opens it.
    ///
    /// # Errors
    /// As [`Sealer::open_answer`].
    pub async fn document(&self, id: &DocumentId) -> Result<Option<Document<Secret>>> {
        match self.catalog().document(id).await? {
            Some(stored) => Ok(Some(self.open_document(stored).await?)),
            None => {
                self.opened().await?;
                Ok(None)
            }
        }
    }

    /// Seals operations under the key that seals now. Returns the check value
    /// that named it, too.
    pub(super) async fn batch(&self, writes: &[Write<Secret>]) -> Result<(Batch, Check)> {
        let has_secret = writes
            .iter()
            .any(|write| matches!(write, Write::PutCredential(..) | Write::PutDocument(..)));
        let seals = self.sealing_key(has_secret).await?;
        let sealed = writes.iter().map(|write| seals.operation(write.clone()));
        let sealed = sealed.collect::<Result<Vec<_>>>()?;
        let batch = Batch::new(seals.check.require(), sealed, Vec::new());
        Ok((batch, seals.check))
    }

    /// Returns what seals now. The keys are read again if the sealing key is
    /// not among them; where it is `needed`, its absence is an error.
    pub(super) async fn sealing_key(&self, needed: bool) -> Result<SealingKey> {
        let catalog = self.opened().await?;
        let known = self.known().check;
        let check = match known {
            Some(check) => check,
            None => self.learn().await?.ok_or_else(no_check)?,
        };
        let ring = match needed {
            true => self.0.keys.with(check.key, KEY_TIMEOUT).await,
            false => self.ring(),
        };
        if needed && !ring.has(check.key) {
            return Err(self.missing_key(check.key));
        }
        Ok(SealingKey {
            catalog,
            ring,
            check,
        })
    }

    async fn open_credential(
        &self,
        catalog: CatalogId,
        stored: StoredCredential<SealedBytes>,
    ) -> Result<StoredCredential<OpenKey>> {
        let ring = self.0.keys.with(stored.key.key_id, KEY_TIMEOUT).await;
        let (stored, sealed) = stored.replace_key(());
        let opened = ring.unseal(sealed, &bound(catalog, &stored)?);
        let opened = opened.map_err(|why| does_not_open(&stored.id, why))?;
        Ok(stored.with_key(OpenKey::unsealed(opened)))
    }
}

impl SealingKey {
    /// Seals the secret of an operation.
    fn operation(&self, write: Write<Secret>) -> Result<Write<SealedBytes>> {
        Ok(match write {
            Write::PutCredential(credential, expect) => {
                let sealed = self.seal(&credential.key, &bound(self.catalog, &credential)?)?;
                Write::PutCredential(credential.with_key(sealed), expect)
            }
            Write::PutDocument(document, expect) => {
                let sealed = self.seal(&document.bytes, &place(self.catalog, &document))?;
                Write::PutDocument(document.with_bytes(sealed), expect)
            }
            Write::PutHost(record, expect) => Write::PutHost(record, expect),
            Write::RemoveHost(pattern, expect) => Write::RemoveHost(pattern, expect),
            Write::RemoveDocument(id, expect) => Write::RemoveDocument(id, expect),
            Write::Require(id, expect) => Write::Require(id, expect),
        })
    }
}

pub(super) fn bound<K>(catalog: CatalogId, credential: &StoredCredential<K>) -> Result<Bound<'_>> {
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

pub(super) fn place<B>(catalog: CatalogId, document: &Document<B>) -> Bound<'_> {
    Bound::Document {
        catalog,
        document: &document.id,
    }
}

pub(super) fn does_not_open(of: &dyn Display, why: UnsealError) -> StoreError {
    StoreError::Corrupt(format!("the secret of {of} does not open: {why}").into())
}
