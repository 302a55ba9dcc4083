//! Fingerprints of what lies on the disk: it is not sent there again.

use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_lc_rs::digest::{Context, SHA256};
use foldhash::quality::RandomState;

use sekisho_certs::host::HostName;
use sekisho_certs::store::Found;

/// Table of fingerprints, each in the slot of its name or pattern; the newest
/// one stays. A lost fingerprint costs a look at the disk; one taken for another
/// (once in four billion) costs a copy. Relaxed order suffices for both.
pub(super) struct Written {
    slots: Box<[AtomicU32]>,
    hasher: RandomState,
}

/// Fingerprint of an answer, and its slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fingerprint {
    slot: usize,
    /// Digest of a record's version and of its credentials. It is stored beside
    /// the copy, and is equal in every process.
    pub(super) digest: i64,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU32::new(EMPTY)).collect(),
            hasher: RandomState::default(),
        }
    }
}

impl Written {
    /// Returns the fingerprint of an answer that may not lie on the disk, and
    /// empties its slot until [`Self::put`]: an older answer on its way must not
    /// pass for a newer one. Below a shadowed wildcard each name has a slot of
    /// its own, because the disk notes each name.
    pub(super) fn missing<K>(
        &self,
        name: &HostName,
        found: &Found<K>,
        key: impl Fn(&K) -> u32,
    ) -> Option<Fingerprint> {
        let name = found.shadowed.then_some(name.as_str());
        let hash = self.hasher.hash_one((name, found.record.pattern.as_str()));
        let fingerprint = Fingerprint {
            slot: usize::try_from(hash >> 32).unwrap_or_default() % SLOTS,
            digest: digest(found, key),
        };
        let slot = &self.slots[fingerprint.slot];
        if slot.load(Ordering::Relaxed) == fingerprint.short() {
            return None;
        }
        slot.store(EMPTY, Ordering::Relaxed);
        Some(fingerprint)
    }

    /// Notes that this answer lies on the disk.
    pub(super) fn put(&self, fingerprint: Fingerprint) {
        self.slots[fingerprint.slot].store(fingerprint.short(), Ordering::Relaxed);
    }

    /// Forgets all: something was dropped from the disk.
    pub(super) fn clear(&self) {
        for slot in &self.slots {
            slot.store(EMPTY, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Written").finish_non_exhaustive()
    }
}

impl Fingerprint {
    fn short(self) -> u32 {
        u32::try_from(self.digest & i64::from(u32::MAX)).map_or(1, |short| short.max(1))
    }
}

fn digest<K>(found: &Found<K>, key: impl Fn(&K) -> u32) -> i64 {
    let mut digest = Context::new(&SHA256);
    digest.update(&found.record.version.to_be_bytes());
    for credential in &found.credentials {
        digest.update(&credential.id.as_u64().to_be_bytes());
        digest.update(&credential.version.to_be_bytes());
        digest.update(&key(&credential.key).to_be_bytes());
    }
    let digest = digest.finish();
    let head = digest.as_ref().first_chunk();
    i64::from_be_bytes(*head.expect("a digest of 32 bytes"))
}

const EMPTY: u32 = 0;
/// Half a mebibyte, for twice the hosts that the default size holds.
const SLOTS: usize = 1 << 17;
