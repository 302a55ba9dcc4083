//! Drain of a worker: its connections end, each in its own time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Signals to the connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    leaving: Signal,
    begun: Signal,
    /// Tunnels that the drain has ended. Relaxed: it orders nothing else.
    tunnels: AtomicUsize,
}

/// Flag that is set once, and never cleared.
#[derive(Debug, Default)]
struct Signal {
    /// Release in `set` pairs with Acquire in `is_set`.
    set: AtomicBool,
    notify: Notify,
}

impl Drain {
    /// Ends connections with their next answer: another process accepts new ones. Those
    /// without a request stay until one comes or their time is over, since a client may
    /// have sent it already.
    pub(crate) fn leave(&self) {
        self.leaving.set();
    }

    /// Ends connections as soon as no request is in flight, and tunnels at once.
    pub(crate) fn begin(&self) {
        self.leaving.set();
        self.begun.set();
    }

    /// Returns whether connections end with their next answer.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_set()
    }

    /// Resolves when connections end with their next answer.
    pub(crate) async fn leaving(&self) {
        self.leaving.wait().await;
    }

    /// Returns whether the drain has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_set()
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
    pub(crate) async fn begun(&self) {
        self.begun.wait().await;
    }
}

impl Signal {
    fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }

    async fn wait(&self) {
        // Created before the flag is read: a `set` in between still notifies.
        let notified = self.notify.notified();
        if !self.is_set() {
            notified.await;
        }
    }
}
