//! Counters of the lookup.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::freshness::FeedState;
use super::{LookupError, Outcome};
use crate::cache::Usage;
use crate::seal::OpenKey;
use crate::store::{self, Answer, StoreError};

/// Figures for metrics, as of one moment.
#[derive(Clone, Debug)]
pub struct LookupStats {
    /// How full the cache is.
    pub usage: Usage,
    /// Credentials in memory.
    pub credentials: usize,
    /// Loads in flight.
    pub in_flight: usize,
    /// The number of the last applied change.
    pub position: u64,
    /// The state of the change feed.
    pub feed: FeedState,
    /// Counters since the start.
    pub counts: Counts,
}

/// Counters that only grow. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Counts(Arc<Cells>);

/// Upper bounds of the classes of [`Counts::calls`], seconds.
pub(super) const CALL_BOUNDS: [f64; 10] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0,
];

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        #[derive(Debug, Default)]
        struct Cells {
            $($name: AtomicU64,)*
            calls: [AtomicU64; CALL_BOUNDS.len() + 1],
            unavailable: AtomicBool,
        }

        impl Counts {
            $($(#[$doc])* #[must_use] pub fn $name(&self) -> u64 {
                self.0.$name.load(Ordering::Relaxed)
            })*
        }
    };
}

cells! {
    /// Lookups that the cache answered with a record.
    hits,
    /// Lookups that the cache answered with an absence.
    hits_absent,
    /// Lookups that joined a load in flight.
    joined,
    /// Loads that ended with a record.
    found,
    /// Loads that ended with an absence.
    absent,
    /// Loads that failed without a cached record to fall back on.
    failed,
    /// Loads that failed and served a stale record.
    stale,
    /// The sum of the times of all store calls, microseconds.
    call_micros,
    /// Store calls that gave an error.
    calls_failed,
}

impl Counts {
    /// Returns the store calls by their time: how many took at most each of
    /// [`CALL_BOUNDS`] and more than the bound before. The last class is
    /// unbounded.
    #[must_use]
    pub fn calls(&self) -> [u64; CALL_BOUNDS.len() + 1] {
        std::array::from_fn(|class| self.0.calls[class].load(Ordering::Relaxed))
    }

    pub(super) fn hit<V>(&self, outcome: &Outcome<V>) {
        add(match outcome {
            Outcome::Absent(_) => &self.0.hits_absent,
            Outcome::Found(_) | Outcome::Failed(_) => &self.0.hits,
        });
    }

    pub(super) fn join(&self) {
        add(&self.0.joined);
    }

    pub(super) fn loaded<V>(&self, outcome: &Outcome<V>) {
        add(match outcome {
            Outcome::Found(_) => &self.0.found,
            Outcome::Absent(_) => &self.0.absent,
            Outcome::Failed(_) => &self.0.failed,
        });
    }

    pub(super) fn served_stale(&self, error: &LookupError) {
        tracing::debug!(%error, "serving a stale record");
        add(&self.0.stale);
    }

    /// Whether the last store call found the store unavailable, late or
    /// overloaded, even if a copy answered in its place.
    #[must_use]
    pub fn unavailable(&self) -> bool {
        self.0.unavailable.load(Ordering::Relaxed)
    }

    /// Takes the store for available: it answered another part of the server.
    pub(super) fn store_answered(&self) {
        self.0.unavailable.store(false, Ordering::Relaxed);
    }

    pub(super) fn asked(&self, time: Duration, answer: &store::Result<Answer<OpenKey>>) {
        if answer.is_err() {
            add(&self.0.calls_failed);
        }
        let unavailable = match answer {
            Ok(answer) => answer.is_stale,
            // The store answers other calls.
            Err(StoreError::Failed(_)) => false,
            Err(error) => error.is_retryable(),
        };
        // Mostly unchanged: a read leaves the cache line shared by all cores.
        if self.unavailable() != unavailable {
            self.0.unavailable.store(unavailable, Ordering::Relaxed);
        }
        let class = CALL_BOUNDS
            .iter()
            .position(|bound| time.as_secs_f64() <= *bound)
            .unwrap_or(CALL_BOUNDS.len());
        add(&self.0.calls[class]);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0.call_micros.fetch_add(micros, Ordering::Relaxed);
    }
}

fn add(cell: &AtomicU64) {
    cell.fetch_add(1, Ordering::Relaxed);
}
