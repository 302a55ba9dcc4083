//! Changing the key that seals, and sealing again what lies under another.

use super::Sealer;
use super::check::OPENING;
use super::secrets::{SealingKey, bound, does_not_open, place};
use crate::credential::{CredentialId, SealedBytes, StoredCredential};
use crate::seal::{Batch, Bound, KeyRing};
use crate::store::{
    CatalogId, Document, DocumentKind, Expect, Reseal, Result, SecretOf, StoreError,
};

impl Sealer {
    /// The id of the key that seals, as the catalog has it now.
    ///
    /// # Errors
    /// If the catalog was never sealed; else what it failed with.
    pub async fn seals_under(&self) -> Result<u32> {
        let check = self.learn().await?;
        Ok(check.ok_or_else(super::no_check)?.key)
    }

    /// From here on every process seals under this key. The catalog announces
    /// it, and no batch that was sealed under another key is written any more.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the ring has no such key; else what the
    /// catalog failed with.
    pub async fn seal_under(&self, key: u32) -> Result<()> {
        let catalog = self.opened().await?;
        let mut conflict = None;
        for _ in 0..ATTEMPTS {
            let check = self.check(catalog).await?.ok_or_else(super::no_check)?;
            if check.key == key {
                return Ok(());
            }
            let ring = self.0.keys.with(key, OPENING).await;
            let new = self.new_check(catalog, &ring, key)?;
            let batch = Batch::of_check(new, Expect::Version(check.version));
            match self.catalog().write(batch).await {
                Err(StoreError::Conflict(what)) => conflict = Some(what),
                other => {
                    other?;
                    self.learn().await?;
                    return Ok(());
                }
            }
        }
        Err(StoreError::Conflict(conflict.unwrap_or_default()))
    }

    /// At most `limit` secrets where the walk stands; none at its end.
    ///
    /// # Errors
    /// What the catalog failed with.
    pub async fn secrets(&self, walk: &mut Walk, limit: usize) -> Result<Vec<SealedSecret>> {
        loop {
            match &mut walk.0 {
                Stage::Credentials(after) => {
                    let page = self.catalog().list_credentials(*after, limit).await?;
                    if let Some(last) = page.last() {
                        *after = Some(last.id);
                        return Ok(page.into_iter().map(SealedSecret::Credential).collect());
                    }
                    walk.0 = Stage::Kinds(String::new());
                }
                Stage::Kinds(after) => {
                    walk.0 = match self.catalog().kind_after(after).await? {
                        Some(kind) => Stage::Documents(kind, None),
                        None => Stage::End,
                    };
                }
                Stage::Documents(kind, after) => {
                    let listed = self.catalog().list_documents(kind, after.as_deref(), limit);
                    let page = listed.await?;
                    if let Some(last) = page.last() {
                        *after = Some(last.id.key.clone().into_owned());
                        return Ok(page.into_iter().map(SealedSecret::Document).collect());
                    }
                    walk.0 = Stage::Kinds(kind.as_str().to_owned());
                }
                Stage::End => return Ok(Vec::new()),
            }
        }
    }

    /// Seals again what of these is under another key than the one that seals
    /// now. It is no change: nobody who serves them notices. What others have
    /// changed meanwhile was sealed under the new key by them.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another key seals by now; else what the
    /// catalog failed with. A secret that does not open is no error of all.
    pub async fn reseal(&self, secrets: &[SealedSecret]) -> Result<Resealed> {
        let seals = self.seals(true).await?;
        let mut outcome = Resealed::default();
        let mut reseals = Vec::new();
        for secret in secrets {
            let from = secret.sealed();
            if from.key_id == seals.check.key {
                continue;
            }
            let ring = self.0.keys.with(from.key_id, OPENING).await;
            match secret.again(&ring, &seals) {
                Ok(to) => reseals.push(secret.replace(from.clone(), to)),
                Err(error) => outcome.failed.push(error),
            }
        }
        outcome.sealed = reseals.len() as u64;
        if outcome.sealed > 0 {
            let batch = Batch::new(seals.check.require(), [], reseals);
            self.catalog().write(batch).await?;
        }
        Ok(outcome)
    }
}

/// A way through everything that is sealed in a catalog: credentials by their
/// ids, then documents by kind and key.
#[derive(Debug)]
pub struct Walk(Stage);

#[derive(Debug)]
enum Stage {
    Credentials(Option<CredentialId>),
    Kinds(String),
    Documents(DocumentKind, Option<String>),
    End,
}

impl Walk {
    /// At the beginning.
    #[must_use]
    pub fn new() -> Self {
        Self(Stage::Credentials(None))
    }
}

impl Default for Walk {
    fn default() -> Self {
        Self::new()
    }
}

/// A secret as the catalog holds it.
#[derive(Clone, Debug)]
pub enum SealedSecret {
    /// A credential with its sealed key.
    Credential(StoredCredential<SealedBytes>),
    /// A sealed document.
    Document(Document<SealedBytes>),
}

impl SealedSecret {
    /// The id of the key that it is sealed under.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.sealed().key_id
    }

    fn sealed(&self) -> &SealedBytes {
        match self {
            Self::Credential(credential) => &credential.key,
            Self::Document(document) => &document.bytes,
        }
    }

    /// Another sealing of the same secret.
    fn again(&self, ring: &KeyRing, seals: &SealingKey) -> Result<SealedBytes> {
        let bound = self.bound(seals.catalog)?;
        let opened = ring.unseal(self.sealed().clone(), &bound);
        let opened = opened.map_err(|why| does_not_open(&self.shown(), why))?;
        seals.seal(&opened, &bound)
    }

    fn bound(&self, catalog: CatalogId) -> Result<Bound<'_>> {
        match self {
            Self::Credential(credential) => bound(catalog, credential),
            Self::Document(document) => Ok(place(catalog, document)),
        }
    }

    fn replace(&self, from: SealedBytes, to: SealedBytes) -> Reseal {
        let (of, version) = match self {
            Self::Credential(one) => (SecretOf::Credential(one.id), one.version),
            Self::Document(one) => (SecretOf::Document(one.id.clone()), one.version),
        };
        Reseal {
            of,
            version,
            from,
            to,
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Credential(credential) => credential.id.to_string(),
            Self::Document(document) => document.id.to_string(),
        }
    }
}

/// What became of a page of secrets.
#[derive(Debug, Default)]
pub struct Resealed {
    /// How many were sealed again.
    pub sealed: u64,
    /// Why the others could not be.
    pub failed: Vec<StoreError>,
}

/// More means that others change the key without pause.
const ATTEMPTS: usize = 8;
