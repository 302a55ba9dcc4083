//! Moments that are noted without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Optional moment in one atomic: 0 is none, else milliseconds + 1. Relaxed
/// suffices: see [`super::ConnTimeouts`].
#[derive(Debug, Default)]
pub(crate) struct Moment(AtomicU64);

impl Moment {
    pub(crate) fn set(&self, ms: u64) {
        self.0.store(ms + 1, Relaxed);
    }

    pub(crate) fn set_once(&self, ms: u64) {
        if self.0.load(Relaxed) == 0 {
            self.set(ms);
        }
    }

    pub(crate) fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    pub(crate) fn value(&self) -> Option<u64> {
        self.0.load(Relaxed).checked_sub(1)
    }
}
