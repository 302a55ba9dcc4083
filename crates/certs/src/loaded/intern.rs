//! One copy in memory of each credential, however many hosts refer to it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustls_pki_types::CertificateDer;

use super::{LoadedCredential, prepare};
use crate::credential::{CredentialId, StoredCredential};

/// The loaded credentials, by id; it keeps none of them alive.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    loaded: Mutex<Loaded>,
    issuers: Mutex<HashSet<&'static [u8], foldhash::quality::RandomState>>,
}

type Loaded = HashMap<CredentialId, Weak<LoadedCredential>, foldhash::fast::RandomState>;

/// Takes a credential out of the map when it is dropped.
pub(crate) struct Registration {
    interner: Weak<Interner>,
    id: CredentialId,
}

impl Interner {
    /// The loaded form of exactly this version: the one in memory, or a new
    /// one. An older version in memory is flagged as superseded.
    pub(crate) fn intern(
        self: &Arc<Self>,
        mut stored: StoredCredential,
    ) -> Result<Arc<LoadedCredential>, String> {
        let (id, version) = (stored.id, stored.version);
        let found = self.current(id);
        if let Some(found) = found.filter(|found| found.version == version && !is_superseded(found))
        {
            return Ok(found);
        }
        let own_chain = self.share_issuers(&mut stored.chain);
        let registration = Registration {
            interner: Arc::downgrade(self),
            id,
        };
        let fresh = Arc::new(prepare(stored, own_chain, registration)?);
        // What is replaced is dropped only after the lock: dropping the last
        // reference takes the lock itself.
        let other = {
            let mut loaded = self.lock();
            let other = loaded.get(&id).and_then(Weak::upgrade);
            match &other {
                Some(other) if other.version == version && !is_superseded(other) => {}
                Some(other) if other.version > version => {
                    fresh.superseded.store(true, Ordering::Relaxed);
                }
                _ => {
                    loaded.insert(id, Arc::downgrade(&fresh));
                }
            }
            other
        };
        match other {
            Some(other) if other.version == version && !is_superseded(&other) => Ok(other),
            Some(other) if other.version < version => {
                other.superseded.store(true, Ordering::Relaxed);
                Ok(fresh)
            }
            _ => Ok(fresh),
        }
    }

    /// Flags what is older than change `number`: its holders are misses now.
    pub(crate) fn supersede(&self, id: CredentialId, number: u64) {
        if let Some(found) = self.current(id).filter(|found| found.version < number) {
            found.superseded.store(true, Ordering::Relaxed);
        }
    }

    /// Forgets all of them; who holds one keeps it.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    /// How many credentials are loaded.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn current(&self, id: CredentialId) -> Option<Arc<LoadedCredential>> {
        self.lock().get(&id).and_then(Weak::upgrade)
    }

    fn lock(&self) -> MutexGuard<'_, Loaded> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces what stands behind the leaf by the one copy of it. Gives the
    /// bytes that stay the chain's own.
    ///
    /// Half of a chain's bytes are its issuer's, and all hosts together have a
    /// few dozen issuers. rustls takes a certificate either owned or for ever,
    /// so the shared ones are never freed, and there is a bound on them.
    fn share_issuers(&self, chain: &mut [CertificateDer<'static>]) -> usize {
        let mut issuers = self.issuers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut own = chain.first().map_or(0, |leaf| leaf.len());
        for issuer in chain.iter_mut().skip(1) {
            if let Some(shared) = issuers.get(issuer.as_ref()) {
                *issuer = CertificateDer::from(*shared);
            } else if issuers.len() < MOST_ISSUERS && issuer.len() <= LONGEST_ISSUER {
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

impl Drop for Registration {
    fn drop(&mut self) {
        let Some(interner) = self.interner.upgrade() else {
            return;
        };
        let mut loaded = interner.lock();
        // Another version may stand there by now, alive.
        if loaded
            .get(&self.id)
            .is_some_and(|there| there.strong_count() == 0)
        {
            loaded.remove(&self.id);
        }
    }
}

fn is_superseded(credential: &LoadedCredential) -> bool {
    credential.superseded.load(Ordering::Relaxed)
}

/// Far above what certificate authorities have; what a tenant may add to the
/// process's memory is this times the next, 2 MiB.
const MOST_ISSUERS: usize = 512;
const LONGEST_ISSUER: usize = 4096;
