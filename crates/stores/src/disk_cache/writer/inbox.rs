//! What waits for the writer: calls that somebody waits for, and answers that
//! are to be kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::super::written::Mark;
use super::Writer;
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::Noted;
use sekisho_certs::store::Found;

/// Hands work to the writer. Nobody waits to put something in.
#[derive(Clone, Debug)]
pub(in crate::disk_cache) struct Inbox {
    tasks: Sender<Task>,
    load: Arc<Load>,
}

/// What waits, so that it is bounded.
#[derive(Debug, Default)]
pub(super) struct Load {
    calls: AtomicUsize,
    kept: AtomicUsize,
    bytes: AtomicUsize,
    /// A copy that should have been dropped found no room.
    pub(super) overflowed: AtomicBool,
}

/// What is to be done.
pub(super) enum Task {
    Call(Box<dyn FnOnce(&mut Writer) + Send>),
    Keep(Kept),
}

/// What the store said of a name.
pub(in crate::disk_cache) struct Kept {
    pub(super) name: HostName,
    /// None if the store has nothing for it, or what it has finds no room.
    pub(super) said: Option<(Box<Found<SealedBytes>>, Mark)>,
    /// How far the log was seen before the store was asked; none for a plain
    /// store.
    pub(super) noted: Option<Noted>,
    bytes: usize,
}

impl Kept {
    pub(in crate::disk_cache) fn found(
        name: &HostName,
        found: Found<SealedBytes>,
        mark: Mark,
        noted: Option<Noted>,
    ) -> Self {
        Self {
            name: name.clone(),
            bytes: weight(&found),
            said: Some((Box::new(found), mark)),
            noted,
        }
    }
}

impl Inbox {
    pub(in crate::disk_cache) fn new() -> (Self, Tasks) {
        let (sender, receiver) = channel();
        let load = Arc::<Load>::default();
        let inbox = Self {
            tasks: sender,
            load: Arc::clone(&load),
        };
        (inbox, Tasks { receiver, load })
    }

    /// False if too many calls wait. Followers of the log have one page in it
    /// at most, so that changes are bounded too.
    pub(in crate::disk_cache) fn call(
        &self,
        call: impl FnOnce(&mut Writer) + Send + 'static,
    ) -> bool {
        if self.load.calls.fetch_add(1, Ordering::AcqRel) >= MAX_CALLS {
            self.load.calls.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        self.tasks.send(Task::Call(Box::new(call))).is_ok()
    }

    /// False if too many bytes wait.
    pub(in crate::disk_cache) fn keep(&self, kept: Kept) -> bool {
        let before = self.load.bytes.fetch_add(kept.bytes, Ordering::AcqRel);
        if before + kept.bytes > MAX_BYTES {
            self.load.bytes.fetch_sub(kept.bytes, Ordering::AcqRel);
            return false;
        }
        self.load.kept.fetch_add(1, Ordering::AcqRel);
        self.tasks.send(Task::Keep(kept)).is_ok()
    }

    /// Drops what a plain store no longer vouches for. Without room for that
    /// either, all copies are dropped.
    pub(in crate::disk_cache) fn forget(&self, name: &HostName) {
        if self.load.kept.fetch_add(1, Ordering::AcqRel) >= MAX_KEPT {
            self.load.kept.fetch_sub(1, Ordering::AcqRel);
            self.load.overflowed.store(true, Ordering::Release);
            return;
        }
        let kept = Kept {
            name: name.clone(),
            said: None,
            noted: None,
            bytes: 0,
        };
        let _ = self.tasks.send(Task::Keep(kept));
    }

    /// Whether the writer has done all that it was given.
    #[cfg(test)]
    pub(in crate::disk_cache) fn is_idle(&self) -> bool {
        self.load.calls.load(Ordering::Acquire) + self.load.kept.load(Ordering::Acquire) == 0
    }
}

/// The writer's end.
pub(in crate::disk_cache) struct Tasks {
    pub(super) receiver: Receiver<Task>,
    pub(super) load: Arc<Load>,
}

impl Load {
    pub(super) fn called(&self) {
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }

    pub(super) fn kept(&self, batch: &[Kept]) {
        let bytes = batch.iter().map(|kept| kept.bytes).sum();
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.kept.fetch_sub(batch.len(), Ordering::AcqRel);
    }
}

/// Some bytes more or less: chains, keys and the site are nearly all of it.
fn weight(found: &Found<SealedBytes>) -> usize {
    let site = found.record.site.as_ref().map_or(0, |site| site.json.len());
    let credential = |one: &sekisho_certs::StoredCredential<SealedBytes>| {
        one.key.bytes.len() + one.chain.iter().map(|one| one.len()).sum::<usize>()
    };
    let credentials = found.credentials.iter().map(credential);
    512 + site + credentials.sum::<usize>()
}

/// As many as loads may be in flight in a busy server.
const MAX_CALLS: usize = 1024;
/// A thousand usual answers; the disk writes ten thousand a second.
const MAX_BYTES: usize = 4 << 20;
/// Names that are to be forgotten are some 100 bytes each.
const MAX_KEPT: usize = 16_384;
