//! Copies of what a store says that others write, in the clear.

use std::sync::Arc;

use super::Copies;
use sekisho_certs::credential::{Protected, Secret, StoredCredential};
use sekisho_certs::host::HostName;
use sekisho_certs::seal::{Bound, KeyRing};
use sekisho_certs::store::{Answer, BoxFuture, CatalogId, Found, Result, Source, Store};

/// Answers for a plain store that is down, from copies whose keys are sealed
/// under a ring of this server. See [`super`].
///
/// A key comes back as [`Protected::Plain`], as the store gave it: it was
/// sealed before a load had checked it, so the next load checks it in full.
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

    fn keep(&self, name: &HostName, found: &Found) {
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

    fn opened(&self, mut found: Found) -> Option<Found> {
        let own = self.copies.own();
        for credential in &mut found.credentials {
            *credential = unseal(&self.ring, own, credential)?;
        }
        Some(found)
    }
}

impl Store for WarmPlain {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let failed = match self.inner.find(name).await {
                Err(error) if error.is_retryable() => error,
                Err(error) => return Err(error),
                Ok(answer) => {
                    self.copies.store_answered();
                    match &answer {
                        Answer::Found(found) => self.keep(name, found),
                        Answer::Absent => self.copies.absent(name),
                    }
                    return Ok(answer);
                }
            };
            let Some(found) = self.copies.find(name, &failed).await else {
                return Err(failed);
            };
            let pattern = found.record.pattern.clone();
            if let Some(found) = self.opened(found) {
                return Ok(Answer::Found(Box::new(found)));
            }
            let why = "it is sealed under another key";
            self.copies
                .post(move |keeper| keeper.drop_unusable(pattern.as_str(), why));
            Err(failed)
        })
    }
}

/// None if the leaf is no certificate, or the key is sealed already.
fn seal(ring: &KeyRing, own: CatalogId, credential: &StoredCredential) -> Option<StoredCredential> {
    let bound = Bound::Key {
        catalog: own,
        credential: credential.id,
        spki: credential.spki()?,
    };
    let sealed = ring.seal(credential.key.secret()?, &bound);
    Some(StoredCredential {
        key: Protected::Sealed(sealed),
        chain: credential.chain.clone(),
        ..*credential
    })
}

fn unseal(
    ring: &KeyRing,
    own: CatalogId,
    credential: &mut StoredCredential,
) -> Option<StoredCredential> {
    let nothing = Protected::Plain(Secret::new(Vec::new()));
    let Protected::Sealed(sealed) = std::mem::replace(&mut credential.key, nothing) else {
        return None;
    };
    let bound = Bound::Key {
        catalog: own,
        credential: credential.id,
        spki: credential.spki()?,
    };
    let secret = ring.unseal(sealed, &bound).ok()?;
    Some(StoredCredential {
        key: Protected::Plain(secret),
        chain: std::mem::take(&mut credential.chain),
        ..*credential
    })
}
