//! Steps of a lookup when another process takes over: it names its hottest records, gives
//! back its memory, and in the new process reads what the old one named.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};

use super::Lookup;
use crate::host::HostName;

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Returns the names of at most `limit` cached records, the hottest of the last minute
    /// first. For a wildcard it is a name that it answers; names below a shadowed wildcard,
    /// each of which needs a load of its own, take a quarter of the list at most.
    ///
    /// The call takes some 0.2 s for a million records: no thread that serves should make it.
    pub fn hottest(&self, limit: usize) -> Vec<HostName> {
        self.cache.hottest(limit, self.freshness.now())
    }

    /// Reads these names in their order, at most `at_once` at a time, so that the cache has
    /// them before clients ask. Reads are step 3 alone: no certificate is issued. Names that
    /// are cached are skipped, failures ignored. `at_once` bounds this call apart from the
    /// loads that clients wait for and from background refreshes.
    ///
    /// Dropping the returned future begins no further read.
    pub async fn warm(self: &Arc<Self>, names: Vec<HostName>, at_once: usize) {
        let read = |name| async move {
            // A client may have joined it that waits for a certificate: not waited for.
            drop(self.read(&name, |_| ()).progress().await);
        };
        let reads = stream::iter(names).map(read);
        reads.buffer_unordered(at_once.max(1)).collect::<()>().await;
    }

    /// Drops what is cached and bounds the cache to 2 MiB from now on, for a process that
    /// serves only the connections that it has. Lookups go on. What connections hold is
    /// freed with them; the tables keep their own memory, some 2 % of the former bound.
    pub fn give_back(&self) {
        self.cache.shrink(GIVEN_BACK);
    }
}

/// Bytes of the cache of a process that accepts no more. Each of 32 shards keeps a record of
/// 60 KiB: a usual one has 4.
const GIVEN_BACK: usize = 2 << 20;
