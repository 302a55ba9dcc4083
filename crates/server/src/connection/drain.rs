//! Drain of a worker: its connections end, each in its own time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::SetOnce;

/// Signals to the connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    leaving: SetOnce<()>,
    begun: SetOnce<()>,
    /// Tunnels that the drain has ended. Relaxed: it orders nothing else.
    tunnels: AtomicUsize,
}

impl Drain {
    /// Ends connections with their next answer: another process accepts new ones. Those
    /// without a request stay until one comes or their time is over, since a client may
    /// have sent it already.
    pub(crate) fn leave(&self) {
        // Fails if it was set before.
        let _ = self.leaving.set(());
    }

    /// Ends connections as soon as no request is in flight, and tunnels at once.
    pub(crate) fn begin(&self) {
        self.leave();
        let _ = self.begun.set(());
    }

    /// Returns whether connections end with their next answer.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.initialized()
    }

    /// Resolves when connections end with their next answer.
    pub(crate) fn leaving(&self) -> impl Future<Output = &()> {
        self.leaving.wait()
    }

    /// Returns whether the drain has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.initialized()
    }

    /// Counts a tunnel that ends since the drain has begun.
    pub(crate) fn ended_tunnel(&self) {
        self.tunnels.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many tunnels the drain has ended.
    pub(crate) fn tunnels(&self) -> usize {
        self.tunnels.load(Ordering::Relaxed)
    }

    /// Resolves when the drain has begun.
    pub(crate) fn begun(&self) -> impl Future<Output = &()> {
        self.begun.wait()
    }
}
