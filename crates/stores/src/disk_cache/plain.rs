//! Copies of what a plain store says, whose keys are in the clear.

use super::pending::Kept;
use super::writer::Writer;
use super::{DiskCache, Inner};
use sekisho_certs::Noted;
use sekisho_certs::SealedBytes;
use sekisho_certs::credential::StoredCredential;
use sekisho_certs::host::HostName;
use sekisho_certs::seal::{Bound, KeyRing, OpenKey};
use sekisho_certs::store::{CatalogId, Found};

impl DiskCache {
    /// Keeps what a plain store found, sealed under this ring; an absence
    /// drops the copy. Where there is no room to keep an answer, the copy
    /// before it is dropped: the store no longer vouches for it.
    pub(crate) fn keep_plain(
        &self,
        name: &HostName,
        found: Option<&Found<OpenKey>>,
        ring: &KeyRing,
    ) {
        if self.inner.is_retired() {
            return;
        }
        let Inner { shared, own, .. } = self.inner.as_ref();
        let mut is_kept = false;
        if let Some(found) = found {
            let Some(fingerprint) = shared.written.missing(name, found, |_| 0) else {
                return;
            };
            is_kept = sealed(found, ring, *own).is_some_and(|found| {
                shared.pending.keep(Kept {
                    name: name.clone(),
                    found: Some((found, fingerprint)),
                    noted: None,
                })
            });
            shared.count_dropped((!is_kept).into());
        }
        if !is_kept {
            shared.pending.forget(name);
        }
    }

    /// The copy that answers for a plain store that failed. Its key is as the
    /// store gave it, in the clear and not proved.
    pub(crate) async fn find_plain(
        &self,
        name: &HostName,
        ring: &KeyRing,
    ) -> Option<Found<OpenKey>> {
        let found = self.find(name, Noted::default()).await?;
        let opened = opened(&found, ring, self.inner.own);
        if opened.is_none() {
            let pattern = found.record.pattern;
            let why = "it is sealed under another key";
            let drop = move |writer: &mut Writer| writer.drop_unusable(pattern.as_str(), why);
            let _ = self.inner.ask(drop).await;
        }
        opened
    }
}

/// Returns none if a leaf is no certificate.
fn sealed(found: &Found<OpenKey>, ring: &KeyRing, own: CatalogId) -> Option<Found<SealedBytes>> {
    changed(found, |credential| {
        Some(ring.seal(
            credential.key.secret(),
            &Bound::credential(own, credential)?,
        ))
    })
}

fn opened(found: &Found<SealedBytes>, ring: &KeyRing, own: CatalogId) -> Option<Found<OpenKey>> {
    changed(found, |credential| {
        let secret = ring.unseal(credential.key.clone(), &Bound::credential(own, credential)?);
        Some(OpenKey::unproved(secret.ok()?))
    })
}

fn changed<K: Clone, L>(
    found: &Found<K>,
    key: impl Fn(&StoredCredential<K>) -> Option<L>,
) -> Option<Found<L>> {
    let credentials = found.credentials.iter();
    let credentials = credentials.map(|one| Some(one.clone().with_key(key(one)?)));
    Some(Found {
        record: found.record.clone(),
        credentials: credentials.collect::<Option<_>>()?,
        shadowed: found.shadowed,
        fresh_for: None,
    })
}
