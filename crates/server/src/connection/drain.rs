//! Drain of a worker: its connections end, each in its own time.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Signal to the connections of a worker that the drain has begun.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    /// Set once the drain has begun, and never cleared. Release in `begin` pairs
    /// with Acquire in `begun`.
    begun: AtomicBool,
    notify: Notify,
}

impl Drain {
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    /// Returns whether the drain has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Acquire)
    }

    /// Resolves when the drain has begun.
    pub(crate) async fn begun(&self) {
        // Created before the flag is read: a `begin` in between still notifies.
        let notified = self.notify.notified();
        if !self.has_begun() {
            notified.await;
        }
    }
}
