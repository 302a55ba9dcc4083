//! Loads in the background that keep cached records fresh.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::cache::Served;

/// The permits of background loads. Loads that clients wait for have others,
/// so a slow store with many stale records starves no cold name.
#[derive(Debug)]
pub(super) struct Refreshes(Arc<Semaphore>);

/// Background load of a record. Dropping it gives back the permit and lets the
/// record be refreshed again, after a failed load too.
pub(super) struct Refresh<V> {
    served: Arc<Served<V>>,
    _permit: OwnedSemaphorePermit,
}

impl Refreshes {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_REFRESHES)))
    }

    /// Begins a refresh of this record. None while another is under way, or
    /// all permits are taken: a later hit then tries again.
    pub(super) fn begin<V>(&self, served: &Arc<Served<V>>) -> Option<Refresh<V>> {
        let refreshing = &served.state.refreshing;
        // Most hits of such a record meet a refresh: a read leaves the cache line shared.
        if refreshing.load(Ordering::Relaxed) {
            return None;
        }
        let permit = Arc::clone(&self.0).try_acquire_owned().ok()?;
        let is_begun = refreshing.swap(true, Ordering::AcqRel);
        (!is_begun).then(|| Refresh {
            served: Arc::clone(served),
            _permit: permit,
        })
    }
}

impl<V> Drop for Refresh<V> {
    fn drop(&mut self) {
        self.served.state.refreshing.store(false, Ordering::Release);
    }
}

/// Comes on top of `[server] loads`, which bounds only loads that clients wait
/// for, and is an eighth of that key's default of 256. With calls of 50 ms, 32
/// refresh 38,000 records within the default freshness of 60 s.
const MAX_REFRESHES: usize = 32;
