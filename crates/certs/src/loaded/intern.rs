//! One copy in memory of each credential, however many hosts refer to it.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::{LoadedCredential, prepare};
use crate::credential::{CredentialId, StoredCredential};

/// The loaded credentials, by id; it keeps none of them alive.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    loaded: Mutex<HashMap<CredentialId, Weak<LoadedCredential>, foldhash::fast::RandomState>>,
}

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
        stored: StoredCredential,
        lazy: bool,
    ) -> Result<Arc<LoadedCredential>, String> {
        let (id, version) = (stored.id, stored.version);
        let found = self.current(id);
        if let Some(found) = found.filter(|found| found.version == version && !is_superseded(found))
        {
            return Ok(found);
        }
        let registration = Registration {
            interner: Arc::downgrade(self),
            id,
        };
        let fresh = Arc::new(prepare(stored, lazy, registration)?);
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

    /// How many credentials are loaded.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    fn current(&self, id: CredentialId) -> Option<Arc<LoadedCredential>> {
        self.lock().get(&id).and_then(Weak::upgrade)
    }

    fn lock(
        &self,
    ) -> std::sync::MutexGuard<
        '_,
        HashMap<CredentialId, Weak<LoadedCredential>, foldhash::fast::RandomState>,
    > {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
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
