//! Single secrets, sealed and opened where they stand.

use std::fmt::Display;

use super::Sealed;
use crate::credential::{Protected, Secret, StoredCredential};
use crate::seal::{Bound, UnsealError};
use crate::store::{CatalogId, Document, Result, StoreError, Write, expect};

impl Sealed {
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

    pub(super) fn open_credential(
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

    pub(super) fn seal_document(
        &self,
        catalog: CatalogId,
        mut document: Document,
    ) -> Result<Document> {
        let shown = expect::document(&document.kind, &document.key);
        let Some(secret) = document.bytes.secret() else {
            return Err(sealed_already(&shown));
        };
        let sealed = self.ring.seal(secret, &place(catalog, &document));
        document.bytes = Protected::Sealed(sealed);
        Ok(document)
    }

    pub(super) fn open_document(
        &self,
        catalog: CatalogId,
        mut document: Document,
    ) -> Result<Document> {
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

    pub(super) fn seal_write(&self, catalog: CatalogId, write: Write) -> Result<Write> {
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
