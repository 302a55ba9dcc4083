//! Single secrets, sealed and opened where they stand.

use std::fmt::Display;

use super::check::Check;
use super::{Sealer, no_check};
use crate::credential::{SealedBytes, Secret, StoredCredential};
use crate::lineage::Lineage;
use crate::seal::{Batch, Bound, OpenKey};
use crate::store::{
    Answer, CatalogId, Document, DocumentId, Found, Result, SecretOf, StoreError, Write,
};

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
            let bound = bound(catalog, &credential)?;
            let (credential, sealed) = credential.replace_key(());
            let key = self.unseal(sealed, &bound, &credential.id).await?;
            open.push(credential.with_key(OpenKey::unsealed(key)));
        }
        Ok(open)
    }

    /// Opens a document.
    ///
    /// # Errors
    /// As [`Sealer::open_answer`].
    pub async fn open_document(&self, stored: Document<SealedBytes>) -> Result<Document<Secret>> {
        let bound = Bound::document(self.opened().await?, &stored.id);
        let sealed = stored.bytes.clone();
        let opened = self.unseal(sealed, &bound, &stored.id).await?;
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

    /// Opens the order of a lineage.
    ///
    /// # Errors
    /// As [`Sealer::open_answer`].
    pub async fn open_lineage(&self, stored: Lineage<SealedBytes>) -> Result<Lineage<Secret>> {
        let (mut lineage, order) = stored.split_order();
        if let Some(sealed) = order {
            let bound = Bound::lineage(self.opened().await?, &lineage.name);
            let of = SecretOf::Lineage(lineage.name.clone());
            lineage.order = Some(self.unseal(sealed, &bound, &of).await?);
        }
        Ok(lineage)
    }

    /// Seals operations under the key that seals now. Returns the check value
    /// that named it, too.
    pub(super) async fn batch(&self, writes: &[Write<Secret>]) -> Result<(Batch, Check)> {
        let (catalog, check) = self.sealing().await?;
        let mut sealed = Vec::with_capacity(writes.len());
        for write in writes {
            sealed.push(self.sealed(write.clone(), catalog, check.key).await?);
        }
        Ok((Batch::new(check.version, sealed, Vec::new()), check))
    }

    /// Returns the catalog to seal for, and the check value that names the key.
    pub(super) async fn sealing(&self) -> Result<(CatalogId, Check)> {
        let catalog = self.opened().await?;
        let known = self.known().check;
        let check = match known {
            Some(check) => check,
            None => self.learn().await?.ok_or_else(no_check)?,
        };
        Ok((catalog, check))
    }

    /// Seals the secret of an operation.
    async fn sealed(
        &self,
        write: Write<Secret>,
        catalog: CatalogId,
        key: u32,
    ) -> Result<Write<SealedBytes>> {
        Ok(match write {
            Write::PutCredential(credential, expect) => {
                let bound = bound(catalog, &credential)?;
                let sealed = self.seal(key, &credential.key, &bound).await?;
                Write::PutCredential(credential.with_key(sealed), expect)
            }
            Write::PutDocument(document, expect) => {
                let bound = Bound::document(catalog, &document.id);
                let sealed = self.seal(key, &document.bytes, &bound).await?;
                Write::PutDocument(document.with_bytes(sealed), expect)
            }
            Write::PutLineage(lineage, fence) => {
                let (mut lineage, order) = lineage.split_order();
                if let Some(order) = order {
                    let bound = Bound::lineage(catalog, &lineage.name);
                    lineage.order = Some(self.seal(key, &order, &bound).await?);
                }
                Write::PutLineage(lineage, fence)
            }
            Write::RemoveLineage(name, fence) => Write::RemoveLineage(name, fence),
            Write::PutHost(record, expect) => Write::PutHost(record, expect),
            Write::RemoveHost(pattern, expect) => Write::RemoveHost(pattern, expect),
            Write::RemoveDocument(id, expect) => Write::RemoveDocument(id, expect),
            Write::Require(id, expect) => Write::Require(id, expect),
        })
    }

    /// Seals one secret. The source is read again if the key is missing.
    pub(super) async fn seal(
        &self,
        key: u32,
        secret: &Secret,
        bound: &Bound,
    ) -> Result<SealedBytes> {
        let sealed = self.0.keys.with(key).await.seal_under(key, secret, bound);
        sealed.ok_or_else(|| self.missing_key(key))
    }

    /// Opens one secret. The source is read again if the key is missing.
    pub(super) async fn unseal(
        &self,
        sealed: SealedBytes,
        bound: &Bound,
        of: &(dyn Display + Sync),
    ) -> Result<Secret> {
        let opened = self.0.keys.with(sealed.key_id).await.unseal(sealed, bound);
        opened.map_err(|why| {
            StoreError::Corrupt(format!("the secret of {of} does not open: {why}").into())
        })
    }
}

pub(super) fn bound<K>(catalog: CatalogId, credential: &StoredCredential<K>) -> Result<Bound> {
    Bound::credential(catalog, credential).ok_or_else(|| {
        StoreError::Corrupt(format!("the leaf of {} is no certificate", credential.id).into())
    })
}
