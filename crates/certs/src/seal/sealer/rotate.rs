//! Changing the key that seals, and sealing again what lies under another.

use super::Sealer;
use super::secrets::bound;
use crate::credential::{CredentialId, SealedBytes, StoredCredential};
use crate::lineage::{Lineage, LineageName, Listed};
use crate::seal::{Batch, Bound};
use crate::store::{
    CatalogId, CredentialFilter, Document, DocumentKind, Precondition, Reseal, Result, SecretOf,
    StoreError,
};

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
    /// [`StoreError::Refused`] if the ring has no such key;
    /// [`StoreError::Conflict`] if another process changes the key at the same
    /// time; else what the catalog failed with.
    pub async fn seal_under(&self, key: u32) -> Result<()> {
        let catalog = self.opened().await?;
        let check = self.check(catalog).await?.ok_or_else(super::no_check)?;
        if check.key != key {
            let new = self.new_check(catalog, key).await?;
            let batch = Batch::of_check(new, Precondition::Version(check.version));
            self.catalog().write(batch).await?;
            self.learn().await?;
        }
        Ok(())
    }

    /// Returns at most `limit` secrets where the walk stands; none at its end.
    ///
    /// # Errors
    /// The catalog's failure.
    pub async fn secrets(&self, walk: &mut Walk, limit: usize) -> Result<Vec<SealedSecret>> {
        loop {
            match &mut walk.0 {
                Stage::Credentials(after) => {
                    let all = CredentialFilter::All;
                    let listed = self.catalog().list_credentials(&all, *after, limit);
                    let page = listed.await?;
                    walk.0 = match page.next {
                        Some(next) => Stage::Credentials(Some(next)),
                        None => Stage::Lineages(None),
                    };
                    if !page.credentials.is_empty() {
                        let secrets = page.credentials.into_iter();
                        return Ok(secrets.map(SealedSecret::Credential).collect());
                    }
                }
                Stage::Lineages(after) => {
                    let catalog = self.catalog();
                    let listed = catalog.list_lineages(Listed::All, after.as_ref(), limit);
                    let page = listed.await?;
                    let Some(last) = page.last() else {
                        walk.0 = Stage::Kinds(String::new());
                        continue;
                    };
                    *after = Some(last.name.clone());
                    let orders: Vec<_> = page.into_iter().filter_map(order).collect();
                    if !orders.is_empty() {
                        return Ok(orders);
                    }
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
                        return Ok(page.into_iter().map(SealedSecret::Document).collect());
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
        let (catalog, check) = self.sealing().await?;
        let mut outcome = Resealed::default();
        let mut reseals = Vec::new();
        for secret in secrets.iter().filter(|secret| secret.key() != check.key) {
            match self.again(secret, catalog, check.key).await {
                Ok(reseal) => reseals.push(reseal),
                // Every other secret would fail for the same reason.
                Err(error @ StoreError::Refused(_)) => return Err(error),
                Err(error) => outcome.failed.push(error),
            }
        }
        outcome.sealed = reseals.len() as u64;
        if outcome.sealed > 0 {
            let batch = Batch::new(check.version, [], reseals);
            self.catalog().write(batch).await?;
        }
        Ok(outcome)
    }

    /// Seals a secret again, under this key.
    async fn again(&self, secret: &SealedSecret, catalog: CatalogId, key: u32) -> Result<Reseal> {
        let (of, version, from, bound) = match secret {
            SealedSecret::Credential(one) => (
                SecretOf::Credential(one.id),
                one.version,
                &one.key,
                bound(catalog, one)?,
            ),
            SealedSecret::Document(one) => (
                SecretOf::Document(one.id.clone()),
                one.version,
                &one.bytes,
                Bound::document(catalog, &one.id),
            ),
            SealedSecret::Order(name, sealed) => (
                SecretOf::Lineage(name.clone()),
                0,
                sealed,
                Bound::lineage(catalog, name),
            ),
        };
        let opened = self.unseal(from.clone(), &bound, &of).await?;
        Ok(Reseal {
            of,
            version,
            from: from.clone(),
            to: self.seal(key, &opened, &bound).await?,
        })
    }
}

/// Walk through everything that is sealed in a catalog: credentials by their
/// ids, then the orders of lineages by name, then documents by kind and key.
#[derive(Debug)]
pub struct Walk(Stage);

#[derive(Debug)]
enum Stage {
    Credentials(Option<(i64, CredentialId)>),
    Lineages(Option<LineageName>),
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
pub enum SealedSecret {
    /// The key of a credential.
    Credential(StoredCredential<SealedBytes>),
    /// The content of a document.
    Document(Document<SealedBytes>),
    /// The order of a lineage.
    Order(LineageName, SealedBytes),
}

fn order(lineage: Lineage<SealedBytes>) -> Option<SealedSecret> {
    Some(SealedSecret::Order(lineage.name, lineage.order?))
}

impl SealedSecret {
    /// Returns the id of the key that it is sealed under.
    #[must_use]
    pub fn key(&self) -> u32 {
        match self {
            Self::Credential(stored) => stored.key.key_id,
            Self::Document(stored) => stored.bytes.key_id,
            Self::Order(_, sealed) => sealed.key_id,
        }
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
