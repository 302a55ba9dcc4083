//! The short way of a handshake's read: on the thread that asks, as long as
//! the system has every page in memory.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use super::file::StoreFile;
use super::nowait::{Attempt, attempt};
use super::slot::{Role, Slot};
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::store::{Answer, Result};

/// Connections that any thread may use for one read at a time.
#[derive(Debug)]
pub(super) struct InlineReaders {
    slots: Vec<Arc<Slot>>,
    /// Cleared for good where the file system can't tell what it has.
    possible: AtomicBool,
}

impl InlineReaders {
    pub(super) fn new(file: &Arc<StoreFile>) -> Self {
        let cores = available_parallelism()
            .map_or(1, NonZero::get)
            .min(MAX_READERS);
        let slots = (0..cores).map(|_| file.slot(None, Role::Inline)).collect();
        Self {
            slots,
            possible: AtomicBool::new(true),
        }
    }

    /// Opens what is not open. It waits for the disk.
    pub(super) fn open(&self) {
        for slot in self.slots.iter().filter(|slot| slot.is_empty()) {
            // A file that can't be opened is reported to those who read it.
            let _ = slot.with(|_| Ok(()));
        }
    }

    /// Tells whether the file system says what it has in memory.
    pub(super) fn is_possible(&self) -> bool {
        self.possible.load(Ordering::Relaxed)
    }

    /// The answer, if it could be had without waiting for anything. What goes
    /// wrong is left to the readers that may wait, and report it.
    pub(super) fn find(&self, name: &HostName) -> Option<Answer<SealedBytes>> {
        if !self.is_possible() {
            return None;
        }
        let tried = self
            .slots
            .iter()
            .find_map(|slot| slot.try_with(|reader| attempt(|| reader.find(name))));
        match tried? {
            Attempt::Done(answer) => Result::ok(answer),
            Attempt::WouldWait => None,
            Attempt::Unsupported => {
                tracing::debug!("this file system can't read without waiting");
                self.possible.store(false, Ordering::Relaxed);
                None
            }
        }
    }
}

/// More threads than this at one read each at the same moment take turns with
/// the readers.
const MAX_READERS: usize = 16;
