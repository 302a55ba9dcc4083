//! Changing the key that seals, and sealing again what lies under another.

use super::Sealer;
use super::check::KEY_TIMEOUT;
use super::secrets::{SealingKey, does_not_open};
use crate::credential::{CredentialId, SealedBytes, StoredCredential};
use crate::seal::{Batch, Bound, KeyRing};
use crate::store::{Document, DocumentKind, Precondition, Reseal, Result, SecretOf, StoreError};

impl Sealer {
    /// Returns the id of the key that seals, as the catalog has it now.
    ///
    /// # Errors
    /// If the catalog was never sealed; else what it failed with.
    pub async fn seals_under(&self) -> Result<u32> {
        let check = self.learn().await?;
        Ok(check.ok_or_else(super::no_check)?.key)
    }

    /// Makes every process seal under this key from now on. The catalog
    /// announces the change, and refuses batches that were sealed under another
    /// key.
    ///
    /// # Errors
    /// [`StoreError::Refused`] if the ring has no such key; else what the
    /// catalog failed with.
    pub async fn seal_under(&self, key: u32) -> Result<()> {
        let catalog = self.opened().await?;
        let mut conflict = None;
        for _ in 0..MAX_ATTEMPTS {
            let check = self.check(catalog).await?.ok_or_else(super::no_check)?;
            if check.key == key {
                return Ok(());
            }
            let ring = self.0.keys.with(key, KEY_TIMEOUT).await;
            let new = self.new_check(catalog, &ring, key)?;
            let batch = Batch::of_check(new, Precondition::Version(check.version));
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

    /// Returns at most `limit` secrets where the walk stands; none at its end.
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
                        return Ok(page.into_iter().map(SealedSecret::credential).collect());
                    }
                    walk.0 = Stage::Kinds(String::new());
                }
                Stage::Kinds(after) => {
                    walk.0 = match self.catalog().next_document_kind(after).await? {
                        Some(kind) => Stage::Documents(kind, None),
                        None => Stage::End,
                    };
                }
                Stage::Documents(kind, after) => {
                    let listed = self.catalog().list_documents(kind, after.as_deref(), limit);
                    let page = listed.await?;
                    if let Some(last) = page.last() {
                        *after = Some(last.id.key.clone().into_owned());
                        return Ok(page.into_iter().map(SealedSecret::document).collect());
                    }
                    walk.0 = Stage::Kinds(kind.as_str().to_owned());
                }
                Stage::End => return Ok(Vec::new()),
            }
        }
    }

    /// Seals again those secrets that lie under another key than the one that
    /// seals now. Resealing is no change of the log. Secrets that others have
    /// changed meanwhile are under the new key already.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another key seals by now; else what the
    /// catalog failed with. A secret that does not open is no error of all.
    pub async fn reseal(&self, secrets: &[SealedSecret]) -> Result<Resealed> {
        let seals = self.sealing_key(true).await?;
        let mut outcome = Resealed::default();
        let mut reseals = Vec::new();
        for secret in secrets {
            if secret.key() == seals.check.key {
                continue;
            }
            let ring = self.0.keys.with(secret.key(), KEY_TIMEOUT).await;
            match secret.again(&ring, &seals) {
                Ok(reseal) => reseals.push(reseal),
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

/// Walk through everything that is sealed in a catalog: credentials by their
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

/// Starts at the beginning.
impl Default for Walk {
    fn default() -> Self {
        Self(Stage::Credentials(None))
    }
}

/// Secret as the catalog holds it.
#[derive(Clone, Debug)]
pub struct SealedSecret {
    of: SecretOf,
    version: u64,
    sealed: SealedBytes,
    /// Of a credential's leaf; else empty.
    spki: Vec<u8>,
}

impl SealedSecret {
    /// Takes the key of a credential.
    fn credential(stored: StoredCredential<SealedBytes>) -> Self {
        Self {
            of: SecretOf::Credential(stored.id),
            version: stored.version,
            // Nothing is sealed for a leaf that is no certificate.
            spki: stored.spki().unwrap_or_default().to_vec(),
            sealed: stored.key,
        }
    }

    /// Takes the content of a document.
    fn document(stored: Document<SealedBytes>) -> Self {
        Self {
            of: SecretOf::Document(stored.id),
            version: stored.version,
            spki: Vec::new(),
            sealed: stored.bytes,
        }
    }

    /// Returns where the secret stands.
    #[must_use]
    pub fn of(&self) -> &SecretOf {
        &self.of
    }

    /// Returns the id of the key that it is sealed under.
    #[must_use]
    pub fn key(&self) -> u32 {
        self.sealed.key_id
    }

    /// Seals the secret again, under the key that seals now.
    fn again(&self, ring: &KeyRing, seals: &SealingKey) -> Result<Reseal> {
        let catalog = seals.catalog;
        let bound = match &self.of {
            SecretOf::Credential(id) => Bound::Key {
                catalog,
                credential: *id,
                spki: &self.spki,
            },
            SecretOf::Document(document) => Bound::Document { catalog, document },
        };
        let opened = ring.unseal(self.sealed.clone(), &bound);
        let opened = opened.map_err(|why| does_not_open(&self.of, why))?;
        Ok(Reseal {
            of: self.of.clone(),
            version: self.version,
            from: self.sealed.clone(),
            to: seals.seal(&opened, &bound)?,
        })
    }
}

/// Outcome for a page of secrets.
#[derive(Debug, Default)]
pub struct Resealed {
    /// Number of secrets that were sealed again.
    pub sealed: u64,
    /// Reasons why the others could not be.
    pub failed: Vec<StoreError>,
}

/// More means that others change the key without pause.
const MAX_ATTEMPTS: usize = 8;
