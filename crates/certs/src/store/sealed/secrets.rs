//! Single secrets, sealed and opened where they stand.

use std::fmt::Display;
use std::sync::Arc;

use super::Sealed;
use super::check::{Check, OPENING};
use crate::credential::{Protected, SealedBytes, Secret, StoredCredential};
use crate::seal::{Bound, KeyRing, UnsealError};
use crate::store::{Answer, CatalogId, Document, Result, Source, StoreError, Write, expect};

/// What seals: a key of a ring, for one catalog.
#[derive(Debug)]
pub(super) struct Sealer {
    pub(super) catalog: CatalogId,
    pub(super) ring: Arc<KeyRing>,
    pub(super) check: Check,
}

impl Sealer {
    pub(super) fn seal(&self, secret: &Secret, bound: &Bound<'_>) -> SealedBytes {
        let sealed = self.ring.seal_under(self.check.key, secret, bound);
        sealed.expect("a sealer is made with its key")
    }

    /// The write as the inner catalog takes it.
    pub(super) fn write(&self, write: Write) -> Result<Write> {
        Ok(match write {
            Write::PutCredential(credential, expect) => {
                Write::PutCredential(self.credential(credential)?, expect)
            }
            Write::PutDocument(document, expect) => {
                Write::PutDocument(self.document(document)?, expect)
            }
            Write::Reseal(_) => {
                return Err(StoreError::Refused(
                    "this catalog seals by itself: only the one inside seals again".into(),
                ));
            }
            plain @ (Write::PutHost(..)
            | Write::RemoveHost(..)
            | Write::RemoveDocument { .. }
            | Write::Require { .. }) => plain,
        })
    }

    fn credential(&self, mut credential: StoredCredential) -> Result<StoredCredential> {
        let id = credential.id;
        let Some(secret) = credential.key.secret() else {
            return Err(sealed_already(&id));
        };
        let sealed = self.seal(secret, &bound(self.catalog, &credential)?);
        credential.key = Protected::Sealed(sealed);
        Ok(credential)
    }

    fn document(&self, mut document: Document) -> Result<Document> {
        let shown = expect::document(&document.kind, &document.key);
        let Some(secret) = document.bytes.secret() else {
            return Err(sealed_already(&shown));
        };
        let sealed = self.seal(secret, &place(self.catalog, &document));
        document.bytes = Protected::Sealed(sealed);
        Ok(document)
    }
}

/// Why an answer does not open.
pub(super) enum Unopened {
    /// A level's copy is damaged, or sealed under a key that is gone: the
    /// store itself may have better.
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

impl Sealed {
    pub(super) async fn open_answer(
        &self,
        mut answer: Answer,
    ) -> std::result::Result<Answer, Unopened> {
        let Answer::Found(found) = &mut answer else {
            return Ok(answer);
        };
        let opened = self.open_credentials(&mut found.credentials).await;
        opened.map_err(|error| match (error, found.source) {
            (StoreError::Corrupt(why), Source::Level) => Unopened::AtLevel(why),
            // That a copy can't be used says nothing of what the store has.
            (StoreError::Corrupt(why), Source::StandIn) => {
                Unopened::Failed(StoreError::Unavailable(why))
            }
            (error, _) => Unopened::Failed(error),
        })?;
        Ok(answer)
    }

    pub(super) async fn open_credentials(&self, stored: &mut [StoredCredential]) -> Result<()> {
        let catalog = self.opened().await?;
        for credential in stored {
            self.open_credential(catalog, credential).await?;
        }
        Ok(())
    }

    /// What seals now. The keys are read again if the one that seals is not
    /// among them.
    pub(super) async fn sealer(&self) -> Result<Sealer> {
        let catalog = self.opened().await?;
        let check = match self.known.check() {
            Some(check) => check,
            None => self.learn().await?.ok_or_else(super::no_check)?,
        };
        let ring = self.keys.with(check.key, OPENING).await;
        if !ring.has(check.key) {
            return Err(self.lacks(check.key));
        }
        Ok(Sealer {
            catalog,
            ring,
            check,
        })
    }

    async fn open_credential(
        &self,
        catalog: CatalogId,
        credential: &mut StoredCredential,
    ) -> Result<()> {
        let id = credential.id;
        let sealed = take_sealed(&mut credential.key, &id)?;
        let ring = self.keys.with(sealed.key_id, OPENING).await;
        let opened = ring.unseal(sealed, &bound(catalog, credential)?);
        credential.key = Protected::Opened(opened.map_err(|why| does_not_open(&id, why))?);
        Ok(())
    }

    pub(super) async fn open_document(
        &self,
        catalog: CatalogId,
        document: &mut Document,
    ) -> Result<()> {
        let shown = expect::document(&document.kind, &document.key);
        let sealed = take_sealed(&mut document.bytes, &shown)?;
        let ring = self.keys.with(sealed.key_id, OPENING).await;
        let opened = ring.unseal(sealed, &place(catalog, document));
        document.bytes = Protected::Opened(opened.map_err(|why| does_not_open(&shown, why))?);
        Ok(())
    }
}

fn take_sealed(secret: &mut Protected, of: &dyn Display) -> Result<SealedBytes> {
    let nothing = Protected::Plain(Secret::new(Vec::new()));
    match std::mem::replace(secret, nothing) {
        Protected::Sealed(sealed) => Ok(sealed),
        Protected::Plain(_) | Protected::Opened(_) => Err(not_sealed(of)),
    }
}

pub(super) fn bound(catalog: CatalogId, credential: &StoredCredential) -> Result<Bound<'_>> {
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

pub(super) fn place(catalog: CatalogId, document: &Document) -> Bound<'_> {
    Bound::Document {
        catalog,
        kind: &document.kind,
        key: &document.key,
    }
}

pub(super) fn does_not_open(of: &dyn Display, why: UnsealError) -> StoreError {
    StoreError::Corrupt(format!("the secret of {of} does not open: {why}").into())
}

pub(super) fn not_sealed(of: &dyn Display) -> StoreError {
    StoreError::Corrupt(format!("the secret of {of} lies in the store in the clear").into())
}

fn sealed_already(of: &dyn Display) -> StoreError {
    StoreError::Refused(format!("the secret of {of} is sealed already").into())
}
