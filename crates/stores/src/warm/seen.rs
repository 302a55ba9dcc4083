//! What is known to lie on the disk, so that it is not sent there again.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_lc_rs::digest::{Context, SHA256};
use foldhash::quality::RandomState;

use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::Found;

/// A table of fingerprints, each in the one place that its hash gives it: the
/// newer one stays. Its errors are harmless: a lost one costs a look at the
/// disk, one taken for another (once in four billion) a copy.
#[derive(Debug)]
pub(super) struct Seen {
    slots: Box<[AtomicU32]>,
    state: RandomState,
}

/// Where a fingerprint stands, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    slot: usize,
    print: u32,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            state: RandomState::default(),
        }
    }

    /// The mark of an answer. Below a shadowed wildcard each name leaves a
    /// note of its own; else the record is the same whoever asked for it.
    pub(super) fn mark<K: Sealing>(&self, name: &HostName, found: &Found<K>) -> Mark {
        let name = found.shadowed.then_some(name.as_str());
        let pattern = found.record.pattern.as_str();
        let credentials: Vec<_> = sealings(found).collect();
        let of = (name, pattern, found.record.version, credentials);
        let hash = self.state.hash_one(of);
        let [head, tail] = [hash >> 32, hash & u64::from(u32::MAX)];
        Mark {
            slot: usize::try_from(head).unwrap_or_default() % SLOTS,
            // 0 is an empty place.
            print: u32::try_from(tail).unwrap_or_default().max(1),
        }
    }

    pub(super) fn holds(&self, mark: Mark) -> bool {
        self.slots[mark.slot].load(Ordering::Relaxed) == mark.print
    }

    pub(super) fn put(&self, mark: Mark) {
        self.slots[mark.slot].store(mark.print, Ordering::Relaxed);
    }

    /// Something was dropped from the disk.
    pub(super) fn clear(&self) {
        for slot in &self.slots {
            slot.store(0, Ordering::Relaxed);
        }
    }
}

/// What tells one state of a record and its credentials from any other, the
/// same in each process: it lies beside the copy.
pub(super) fn state(found: &Found<SealedBytes>) -> i64 {
    let mut digest = Context::new(&SHA256);
    digest.update(&found.record.version.to_be_bytes());
    for (id, version, key) in sealings(found) {
        digest.update(&id.to_be_bytes());
        digest.update(&version.to_be_bytes());
        digest.update(&key.to_be_bytes());
    }
    let digest = digest.finish();
    let head = digest.as_ref().first_chunk();
    i64::from_be_bytes(*head.expect("a digest of 32 bytes"))
}

/// Id, version and master key of each credential. A secret that is sealed
/// again keeps its version, and the key that its copy needs may be taken away.
/// The nonce is no part: under the same key one sealing is as good as another.
fn sealings<K: Sealing>(found: &Found<K>) -> impl Iterator<Item = (u64, u64, u32)> {
    found.credentials.iter().map(|credential| {
        let key = credential.key.master_key();
        (credential.id.as_u64(), credential.version, key)
    })
}

/// A key of which a copy is kept.
pub(super) trait Sealing {
    /// The id of the master key that it is sealed under; 0 for none.
    fn master_key(&self) -> u32;
}

impl Sealing for SealedBytes {
    fn master_key(&self) -> u32 {
        self.key_id
    }
}

impl Sealing for OpenKey {
    fn master_key(&self) -> u32 {
        0
    }
}

/// Half a mebibyte, for as many hosts as the default size holds.
const SLOTS: usize = 1 << 17;
