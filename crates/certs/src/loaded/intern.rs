//! Interning: one copy in memory of each credential, shared by all its hosts.

use std::cmp;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

use rustls_pki_types::CertificateDer;

use super::{LoadedCredential, prepare};
use crate::credential::{CredentialId, StoredCredential};
use crate::lock::lock;
use crate::seal::OpenKey;

/// Loaded credentials by id. Keeps none of them alive.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    loaded: Mutex<Loaded>,
    issuers: Mutex<HashSet<&'static [u8], foldhash::quality::RandomState>>,
}

type Loaded = HashMap<CredentialId, Weak<LoadedCredential>, foldhash::fast::RandomState>;

impl Interner {
    /// Returns the loaded form of exactly this version and chain, shared by all
    /// hosts that hold it. The load began in `epoch`.
    ///
    /// At most one form of an id is current: an older one is flagged as
    /// superseded, whichever of the two is loaded last.
    pub(crate) fn intern(
        self: &Arc<Self>,
        mut stored: StoredCredential<OpenKey>,
        epoch: u64,
    ) -> Result<Arc<LoadedCredential>, String> {
        let same = |found: &Arc<LoadedCredential>| found.is_form(stored.version, &stored.chain);
        if let Some(found) = self.current(stored.id).filter(same) {
            found.epoch.fetch_max(epoch, Ordering::Relaxed);
            return Ok(found);
        }
        let own_chain = self.share_issuers(&mut stored.chain);
        let fresh = prepare(stored, own_chain, epoch, Arc::downgrade(self))?;
        Ok(self.register(Arc::new(fresh)))
    }

    fn register(&self, fresh: Arc<LoadedCredential>) -> Arc<LoadedCredential> {
        // Nothing is dropped under the lock: dropping a last reference takes it.
        let (other, order) = {
            let mut loaded = lock(&self.loaded);
            let other = loaded.get(&fresh.id).and_then(Weak::upgrade);
            let order = other.as_ref().map(|other| fresh.order(other));
            if order.is_none_or(|order| order == cmp::Ordering::Greater) {
                loaded.insert(fresh.id, Arc::downgrade(&fresh));
            }
            (other, order)
        };
        match (other, order) {
            (Some(other), Some(cmp::Ordering::Equal)) => return other,
            (Some(other), Some(cmp::Ordering::Greater)) => other.supersede(),
            (Some(_), _) => fresh.supersede(),
            (None, _) => {}
        }
        fresh
    }

    /// Flags what is older than change `number` of `epoch`: cached records that
    /// hold it become misses.
    pub(crate) fn supersede(&self, id: CredentialId, epoch: u64, number: u64) {
        match self.current(id) {
            Some(found) if found.age() < (epoch, number) => found.supersede(),
            _ => {}
        }
    }

    /// Returns how many credentials are loaded.
    pub(crate) fn len(&self) -> usize {
        lock(&self.loaded).len()
    }

    fn current(&self, id: CredentialId) -> Option<Arc<LoadedCredential>> {
        lock(&self.loaded).get(&id).and_then(Weak::upgrade)
    }

    /// Replaces the issuers of a chain by shared copies. Returns the bytes that
    /// stay the chain's own.
    ///
    /// Half of a chain's bytes are its issuer's, and all hosts together have a
    /// few dozen issuers. rustls takes a certificate owned or `'static`: shared
    /// ones are never freed, and therefore bounded.
    fn share_issuers(&self, chain: &mut [CertificateDer<'static>]) -> usize {
        let mut issuers = lock(&self.issuers);
        let mut own = chain.first().map_or(0, |leaf| leaf.len());
        for issuer in chain.iter_mut().skip(1) {
            if let Some(shared) = issuers.get(issuer.as_ref()) {
                *issuer = CertificateDer::from(*shared);
            } else if issuers.len() < MAX_ISSUERS && issuer.len() <= MAX_ISSUER_BYTES {
                let shared: &'static [u8] = issuer.to_vec().leak();
                issuers.insert(shared);
                *issuer = CertificateDer::from(shared);
            } else {
                own += issuer.len();
            }
        }
        own
    }
}

/// Removes the credential from the map.
impl Drop for LoadedCredential {
    fn drop(&mut self) {
        let Some(interner) = self.interner.upgrade() else {
            return;
        };
        let mut loaded = lock(&interner.loaded);
        // Another version may have taken the place.
        let is_own = |there: &Weak<Self>| there.strong_count() == 0;
        if loaded.get(&self.id).is_some_and(is_own) {
            loaded.remove(&self.id);
        }
    }
}

impl LoadedCredential {
    /// Orders the forms of one id. Numbers count within one epoch only: behind
    /// a restart may stand another log, which has not counted as far.
    fn age(&self) -> (u64, u64) {
        (self.epoch.load(Ordering::Relaxed), self.version)
    }

    /// Tells whether this is a current form of that version and chain. Chains are
    /// compared because two logs may give one version to different chains.
    fn is_form(&self, version: u64, chain: &[CertificateDer<'_>]) -> bool {
        !self.superseded.load(Ordering::Relaxed)
            && self.version == version
            && self.certified.cert == chain
    }

    /// Returns equal if `other` can stand for this form, greater if this form
    /// replaces it.
    fn order(&self, other: &Self) -> cmp::Ordering {
        if other.is_form(self.version, &self.certified.cert) {
            cmp::Ordering::Equal
        } else if other.age() <= self.age() {
            cmp::Ordering::Greater
        } else {
            cmp::Ordering::Less
        }
    }

    fn supersede(&self) {
        self.superseded.store(true, Ordering::Relaxed);
    }
}

/// Far more than public CAs use. This times the next constant, 2 MiB, is what
/// tenants can add to the process's memory for good.
const MAX_ISSUERS: usize = 512;
const MAX_ISSUER_BYTES: usize = 4096;

#[cfg(test)]
mod tests;
