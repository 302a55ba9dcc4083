//! Answers that wait for the next transaction.

use std::sync::Mutex;

use tokio::sync::Notify;

use super::written::Fingerprint;
use sekisho_certs::Noted;
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::lock;
use sekisho_certs::store::Found;

/// Answers of the store in their order, bounded in bytes.
#[derive(Debug, Default)]
pub(super) struct Pending {
    waiting: Mutex<Waiting>,
    /// Something was added.
    pub(super) filled: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pub(super) answers: Vec<Kept>,
    bytes: usize,
    /// A copy that should have been dropped found no room: all have to go.
    pub(super) overflowed: bool,
}

/// Answer of the store for a name.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) name: HostName,
    /// The answer; none if the store has nothing, or what it has finds no room.
    pub(super) found: Option<(Found<SealedBytes>, Fingerprint)>,
    /// How far the log was seen before the store was asked; none for a plain
    /// store.
    pub(super) noted: Option<Noted>,
}

impl Pending {
    /// Adds an answer that a copy is to be made of; false if there is no room.
    pub(super) fn keep(&self, kept: Kept) -> bool {
        self.filled.notify_one();
        lock(&self.waiting).push(kept, MAX_BYTES)
    }

    /// Adds a name whose copy is to be dropped. They have as much room again;
    /// without it, all copies are dropped.
    pub(super) fn forget(&self, name: &HostName) {
        let kept = Kept {
            name: name.clone(),
            found: None,
            noted: None,
        };
        self.filled.notify_one();
        let mut waiting = lock(&self.waiting);
        if !waiting.push(kept, 2 * MAX_BYTES) {
            waiting.answers.clear();
            waiting.bytes = 0;
            waiting.overflowed = true;
        }
    }

    /// Takes all of it out.
    pub(super) fn take(&self) -> Waiting {
        std::mem::take(&mut *lock(&self.waiting))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.waiting).answers.is_empty()
    }
}

impl Waiting {
    fn push(&mut self, kept: Kept, most: usize) -> bool {
        let bytes = self.bytes + kept.weight();
        let fits = bytes <= most;
        if fits {
            self.bytes = bytes;
            self.answers.push(kept);
        }
        fits
    }
}

impl Kept {
    /// Bytes, some more or less: chains, keys and the site are nearly all of it.
    pub(super) fn weight(&self) -> usize {
        let Some((found, _)) = &self.found else {
            return NAME_BYTES;
        };
        let sites = found.record.site.iter().chain(&found.record.suspended);
        let sites: usize = sites.map(|site| site.json.len()).sum();
        let credentials = found.credentials.iter().map(|one| {
            let chain = one.chain.iter().map(|one| one.len());
            one.key.bytes.len() + chain.sum::<usize>()
        });
        2 * NAME_BYTES + sites + credentials.sum::<usize>()
    }
}

/// A thousand usual answers; the disk writes ten thousand a second.
const MAX_BYTES: usize = 4 << 20;
/// The longest name and what surrounds it.
const NAME_BYTES: usize = 300;
