//! A cache in Redis before a catalog, shared by all servers.
//!
//! **Nothing is served that this server has seen replaced.** Redis holds what
//! the catalog held at one number of its log (`server.rs` says how). Each
//! lookup carries the highest number that this server has seen, and Redis gives
//! no answer from a state that is not as far. The feed carries each page of
//! changes into Redis before it counts as seen. The first server does it; for
//! the others it is done.
//!
//! **A Redis that fails is passed over.** After one call that fails or takes
//! too long no lookup asks it, until `resync.rs` has brought it to the present:
//! it reads how far Redis is and pages the log from there. A Redis that went
//! back in time, by an old snapshot or a replica that lagged behind, is a Redis
//! that is not as far. Where the log does not continue at its number, or it is
//! empty, everything in it is given up by a new generation.
//!
//! **A catalog that went back takes Redis with it.** A database restored from a
//! snapshot may use the same numbers again for other changes. A server whose
//! log starts over begins a new generation. After an outage of the log Redis is
//! asked only once its number was found in the log again.
//!
//! Absences are never stored, nor is a wildcard with exact records below it:
//! both would have to be right about names that are not there.

mod counts;
mod entry;
mod resync;
mod script;
mod server;

use std::fmt;
use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::counts::Counts;
use self::entry::Entry;
pub(crate) use self::server::CachePosition;
pub use self::server::CacheServer;
use self::server::Got;
use crate::fault::within;
use sekisho_certs::host::HostName;
use sekisho_certs::lock;
use sekisho_certs::metrics::Registry;
use sekisho_certs::store::{
    BoxFuture, Catalog, CatalogId, ChangePage, Found, LogPosition, StoreError,
};
use sekisho_certs::{FeedState, Follower, SealedBytes};
use sekisho_certs::{Noted, Seen};

/// Answers of a catalog, kept in Redis. It follows the catalog's log.
pub struct RedisCache {
    shared: Arc<Shared>,
    _resync: JoinSet<()>,
}

/// The bounds of calls to Redis.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// How long a lookup waits.
    pub get: Duration,
    /// How long calls take for which nobody waits.
    pub background: Duration,
}

impl Default for Timeouts {
    /// Redis answers within a millisecond.
    fn default() -> Self {
        Self {
            get: Duration::from_millis(50),
            background: Duration::from_secs(1),
        }
    }
}

struct Shared {
    server: CacheServer,
    catalog: Arc<dyn Catalog>,
    /// The catalog's id, once it was asked.
    id: OnceCell<CatalogId>,
    seen: Arc<Seen>,
    runtime: Handle,
    timeouts: Timeouts,
    known: Mutex<Known>,
    /// True if Redis was lost by a call that failed or took too long.
    failed: AtomicBool,
    /// Wakes the resync.
    lost: Notify,
    fills: Arc<Semaphore>,
    counts: Counts,
}

/// Knowledge of the state in Redis.
#[derive(Debug, Default)]
struct Known {
    /// The generation that was compared with the log, and the epoch of
    /// [`Seen`] in which that was.
    compared: Option<(CachePosition, u64)>,
    /// Grows with each reason to compare again.
    doubts: u64,
    /// Number of the last change that the feed has handed on since: it must be there.
    brought: u64,
    /// When the log was last read, if that went well.
    followed: Option<Instant>,
}

impl RedisCache {
    /// Keeps answers of this catalog. What runs in the background runs on that
    /// runtime.
    #[must_use]
    pub fn new(
        server: CacheServer,
        catalog: Arc<dyn Catalog>,
        seen: Arc<Seen>,
        timeouts: Timeouts,
        runtime: &Handle,
    ) -> Self {
        let shared = Arc::new(Shared {
            server,
            catalog,
            id: OnceCell::new(),
            seen,
            runtime: runtime.clone(),
            timeouts,
            known: Mutex::default(),
            failed: AtomicBool::new(false),
            lost: Notify::new(),
            fills: Arc::new(Semaphore::new(FILLS)),
            counts: Counts::default(),
        });
        let mut resync = JoinSet::new();
        resync.spawn_on(resync::keep(Arc::clone(&shared)), runtime);
        Self {
            shared,
            _resync: resync,
        }
    }

    /// Registers the metrics of reads and fills.
    pub fn register(&self, registry: &mut Registry) {
        self.shared.counts.register(registry);
    }

    #[cfg(test)]
    fn counts(&self) -> Counts {
        self.shared.counts.clone()
    }

    /// Tells whether changes arrive: then Redis is as good as the catalog.
    pub(crate) fn is_feed_healthy(&self) -> bool {
        let followed = lock(&self.shared.known).followed;
        followed.is_some_and(|at| at.elapsed() < FOLLOWED)
    }

    /// Returns the position by which a lookup that noted this may ask and fill;
    /// none while Redis is passed over.
    pub(crate) fn position(&self, noted: Noted) -> Option<CachePosition> {
        let shared = &self.shared;
        let seen = noted.position.filter(|_| shared.counts.is_usable())?;
        let known = lock(&shared.known);
        let (compared, epoch) = known.compared.as_ref()?;
        (*epoch == noted.epoch && compared.space.log == seen.log).then(|| CachePosition {
            number: seen.number,
            ..compared.clone()
        })
    }

    /// Reads what Redis has for a name; none if it has nothing, or is passed over.
    pub(crate) async fn find(
        &self,
        position: Option<&CachePosition>,
        name: &HostName,
    ) -> Option<Box<Found<SealedBytes>>> {
        let shared = &self.shared;
        let Some(position) = position else {
            shared.counts.passed_over.inc();
            return None;
        };
        let got = within(shared.timeouts.get, shared.server.get(position, name));
        let counter = match got.await {
            Ok(Got::Found(found)) => {
                shared.counts.hits.inc();
                return Some(found);
            }
            Ok(Got::Miss) => &shared.counts.misses,
            Ok(Got::Damaged(why)) => {
                self.count_unusable(name, &why);
                &shared.counts.misses
            }
            Ok(Got::Behind) => {
                // A write of this process is seen before the feed has brought it there.
                if position.number <= shared.brought() {
                    shared.lose();
                }
                &shared.counts.passed_over
            }
            Err(error) => {
                shared.fail(&error);
                &shared.counts.passed_over
            }
        };
        counter.inc();
        None
    }

    /// Counts a copy that can't be used.
    pub(crate) fn count_unusable(&self, name: &HostName, why: &dyn fmt::Display) {
        let before = self.shared.counts.unusable_values.inc();
        if (before + 1).is_power_of_two() {
            tracing::warn!(host = %name, %why, "Redis holds something unusable, the catalog is asked");
        }
    }

    /// Stores an answer of the catalog, which was asked after `position` was
    /// noted, while its client is served.
    pub(crate) fn fill(&self, position: CachePosition, found: &Found<SealedBytes>) {
        let shared = &self.shared;
        if found.shadowed || !shared.counts.is_usable() {
            return;
        }
        let Ok(entry) = Entry::of(found) else {
            shared.counts.refused.inc();
            return;
        };
        let Ok(permit) = Arc::clone(&shared.fills).try_acquire_owned() else {
            shared.counts.dropped.inc();
            return;
        };
        let shared = Arc::clone(shared);
        self.shared.runtime.spawn(async move {
            let fill = shared.server.fill(&position, &entry);
            let counter = match within(shared.timeouts.background, fill).await {
                Ok(true) => &shared.counts.stored,
                Ok(false) => &shared.counts.refused,
                Err(error) => {
                    shared.fail(&error);
                    &shared.counts.failed
                }
            };
            counter.inc();
            drop(permit);
        });
    }
}

impl Follower for RedisCache {
    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let shared = &self.shared;
            // Where it is passed over, the resync pages from its own number.
            if let Some(position) = self.position(shared.seen.note()) {
                match shared.server.advance(&position, page).await {
                    Ok(true) => {}
                    Ok(false) => shared.lose(),
                    Err(error) => shared.fail(&error),
                }
            }
            if let Some(last) = page.changes.last() {
                lock(&shared.known).brought = last.number;
            }
        })
    }

    fn start_over(&self, _: LogPosition) -> BoxFuture<'_, ()> {
        self.shared.doubt();
        Box::pin(ready(()))
    }

    fn late(&self) {
        self.shared.fail(&StoreError::Overloaded);
    }

    fn feed_is(&self, state: FeedState) {
        let reads = state == FeedState::Healthy;
        let now = reads.then(Instant::now);
        let before = std::mem::replace(&mut lock(&self.shared.known).followed, now);
        // Numbers may have come to mean something else meanwhile.
        if reads && before.is_none() {
            self.shared.doubt();
        }
    }
}

impl fmt::Debug for RedisCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCache")
            .field("server", &self.shared.server)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// Returns the number of the last change that must be there.
    fn brought(&self) -> u64 {
        let known = lock(&self.known);
        let compared = known.compared.as_ref().map(|(at, _)| at.number);
        known.brought.max(compared.unwrap_or_default())
    }

    /// Passes Redis over until its state was compared with the log again.
    fn doubt(&self) {
        let mut known = lock(&self.known);
        known.compared = None;
        known.brought = 0;
        known.doubts += 1;
        drop(known);
        self.lose();
    }

    /// Passes Redis over until the resync has been there.
    fn lose(&self) {
        self.counts.usable(false);
        self.lost.notify_one();
    }

    /// Passes Redis over after a call that failed or took too long: the resync
    /// waits before it goes there.
    fn fail(&self, error: &StoreError) {
        tracing::debug!(%error, "Redis is passed over");
        self.failed.store(true, Ordering::Release);
        self.lose();
    }
}

/// Fills under way at most, some kilobytes each; further ones are left out.
const FILLS: usize = 64;
/// A read of the log may take its 2 s, a second after the last.
const FOLLOWED: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests;
