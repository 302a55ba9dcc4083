//! Moments that are noted without a lock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use sekisho_certs::clock;
use tokio::time::Instant;

/// Time from which moments are counted: when this was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start(Instant);

impl Default for Start {
    fn default() -> Self {
        Self(clock::monotonic())
    }
}

impl Start {
    pub(super) fn elapsed(self) -> Duration {
        clock::monotonic() - self.0
    }

    /// Returns the milliseconds since then.
    pub(super) fn now(self) -> u64 {
        millis(self.elapsed())
    }

    pub(super) fn at(self, ms: u64) -> Instant {
        self.0 + Duration::from_millis(ms)
    }
}

/// Returns a time in milliseconds, less than 2^62 of them.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis())
        .unwrap_or(u64::MAX)
        .min(u64::MAX >> 2)
}

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
