//! Count of the orders that a CA has accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Count that the proxy before a CA goes on with. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Orders(Arc<AtomicUsize>);

impl Orders {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Returns what the proxy shows its requests to.
    pub(super) fn watch(&self) -> impl Fn(&str, Option<u16>) -> bool + Send + Sync + 'static {
        let orders = self.clone();
        move |path, status| {
            orders.see(path, status);
            true
        }
    }

    /// Counts a request that is the answer to a new order.
    pub(super) fn see(&self, path: &str, status: Option<u16>) {
        if path == format!("/{NEW_ORDER}") && status == Some(201) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Pebble's path for new orders.
pub(super) const NEW_ORDER: &str = "order-plz";
