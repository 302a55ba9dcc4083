//! Copies of what a store says that others write, in the clear.

use std::sync::Arc;

use super::Copies;
use sekisho_certs::credential::{SealedBytes, StoredCredential};
use sekisho_certs::host::HostName;
use sekisho_certs::seal::{Bound, KeyRing, OpenKey};
use sekisho_certs::store::{Answer, BoxFuture, CatalogId, Found, Result, Source, Store};

/// Answers for a plain store that is down, from copies whose keys are sealed
/// under a ring of this server. See [`super`].
///
/// A key comes back unproved, as the store gave it: it was sealed before a load
/// had proved it, so the next load proves it in full.
#[derive(Debug)]
pub struct WarmPlain {
    copies: Copies,
    ring: Arc<KeyRing>,
    inner: Arc<dyn Store>,
}

impl WarmPlain {
    /// Wraps a store. What is sealed opens only with this ring, and only out
    /// of this file.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>, copies: Copies, ring: KeyRing) -> Self {
        Self {
            copies,
            ring: Arc::new(ring),
            inner,
        }
    }

    fn keep(&self, name: &HostName, found: &Found<OpenKey>) {
        let Some(mark) = self.copies.unseen(name, found) else {
            return;
        };
        let own = self.copies.own();
        let credentials = found.credentials.iter();
        let credentials = credentials.map(|one| seal(&self.ring, own, one)).collect();
        if let Some(credentials) = credentials {
            let sealed = Found {
                record: found.record.clone(),
                credentials,
                shadowed: found.shadowed,
                fresh_for: None,
                source: Source::Store,
            };
            self.copies.keep(name, sealed, mark, None);
        }
    }

    fn opened(&self, found: Found<SealedBytes>) -> Option<Found<OpenKey>> {
        let own = self.copies.own();
        let credentials = found.credentials.into_iter();
        let credentials = credentials.map(|one| unseal(&self.ring, own, one));
        Some(Found {
            record: found.record,
            credentials: credentials.collect::<Option<_>>()?,
            shadowed: found.shadowed,
            fresh_for: found.fresh_for,
            source: found.source,
        })
    }
}

impl Store for WarmPlain {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(async move {
            let failed = match self.inner.find(name).await {
                Err(error) if error.is_retryable() => error,
                Err(error) => return Err(error),
                Ok(answer) => {
                    self.copies.store_answered();
                    match &answer.found {
                        Some(found) => self.keep(name, found),
                        None => self.copies.absent(name),
                    }
                    return Ok(answer);
                }
            };
            let Some(found) = self.copies.find(name, &failed).await else {
                return Err(failed);
            };
            let pattern = found.record.pattern.clone();
            if let Some(found) = self.opened(found) {
                return Ok(Answer::found(found));
            }
            let why = "it is sealed under another key";
            self.copies
                .post(move |keeper| keeper.drop_unusable(pattern.as_str(), why));
            Err(failed)
        })
    }
}

/// None if the leaf is no certificate.
fn seal(
    ring: &KeyRing,
    own: CatalogId,
    credential: &StoredCredential<OpenKey>,
) -> Option<StoredCredential<SealedBytes>> {
    let sealed = ring.seal(credential.key.secret(), &bound(own, credential)?);
    Some(credential.clone().with_key(sealed))
}

fn unseal(
    ring: &KeyRing,
    own: CatalogId,
    credential: StoredCredential<SealedBytes>,
) -> Option<StoredCredential<OpenKey>> {
    let (credential, sealed) = credential.replace_key(());
    let secret = ring.unseal(sealed, &bound(own, &credential)?).ok()?;
    Some(credential.with_key(OpenKey::unproved(secret)))
}

fn bound<K>(own: CatalogId, credential: &StoredCredential<K>) -> Option<Bound<'_>> {
    Some(Bound::Key {
        catalog: own,
        credential: credential.id,
        spki: credential.spki()?,
    })
}
