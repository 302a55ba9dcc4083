//! What is known to lie on the disk, so that it is not sent there again.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_lc_rs::digest::{Context, SHA256};
use foldhash::quality::RandomState;

use sekisho_certs::host::HostName;
use sekisho_certs::store::Found;

/// A table of fingerprints, each in the slot of its name or pattern: the newest
/// one stays. Its errors are harmless: a lost one costs a look at the disk, one
/// taken for another (once in four billion) a copy.
#[derive(Debug)]
pub(super) struct Written {
    slots: Box<[AtomicU32]>,
    state: RandomState,
}

/// Where a fingerprint stands, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    slot: usize,
    print: u32,
    /// What tells one state of a record and its credentials from any other,
    /// the same in each process: it lies beside the copy.
    pub(super) state: i64,
}

impl Default for Written {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU32::new(0)).collect(),
            state: RandomState::default(),
        }
    }
}

impl Written {
    /// The mark of an answer, if it may not lie on the disk; from now on it
    /// may not, until it was put. Below a shadowed wildcard each name leaves a
    /// note of its own; else the record is the same whichever name was asked.
    pub(super) fn missing<K>(
        &self,
        name: &HostName,
        found: &Found<K>,
        key: impl Fn(&K) -> u32,
    ) -> Option<Mark> {
        let name = found.shadowed.then_some(name.as_str());
        let state = state(found, key);
        let place = self.state.hash_one((name, found.record.pattern.as_str()));
        let print = self.state.hash_one(state) & u64::from(u32::MAX);
        let mark = Mark {
            slot: usize::try_from(place >> 32).unwrap_or_default() % SLOTS,
            // 0 is an empty slot.
            print: u32::try_from(print).unwrap_or_default().max(1),
            state,
        };
        let slot = &self.slots[mark.slot];
        if slot.load(Ordering::Relaxed) == mark.print {
            return None;
        }
        // What is written next may be older: both are sent, in their order.
        slot.store(0, Ordering::Relaxed);
        Some(mark)
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

fn state<K>(found: &Found<K>, key: impl Fn(&K) -> u32) -> i64 {
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

/// Half a mebibyte, for as many hosts as the default size holds.
const SLOTS: usize = 1 << 17;
