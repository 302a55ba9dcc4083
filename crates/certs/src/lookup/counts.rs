//! Counters of the lookup.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;

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
pub struct Counts {
    /// Lookups that the cache answered with a record.
    pub hits: Counter,
    /// Lookups that the cache answered with an absence.
    pub hits_absent: Counter,
    /// Lookups that joined a load in flight.
    pub joined: Counter,
    /// Loads that ended with a record.
    pub found: Counter,
    /// Loads that ended with an absence.
    pub absent: Counter,
    /// Loads that failed without a cached record to fall back on.
    pub failed: Counter,
    /// Loads that failed and served a stale record.
    pub stale: Counter,
    /// The sum of the times of all store calls, microseconds.
    pub call_micros: Counter,
    /// Store calls that gave an error.
    pub calls_failed: Counter,
    calls: Arc<[AtomicU64; CALL_BOUNDS.len() + 1]>,
    unavailable: Arc<AtomicBool>,
}

/// Upper bounds of the classes of [`Counts::calls`], seconds.
pub(super) const CALL_BOUNDS: [f64; 10] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0,
];

impl Counts {
    /// Returns the store calls by their time: how many took at most each of
    /// [`CALL_BOUNDS`] and more than the bound before. The last class is
    /// unbounded.
    #[must_use]
    pub fn calls(&self) -> [u64; CALL_BOUNDS.len() + 1] {
        std::array::from_fn(|class| self.calls[class].load(Ordering::Relaxed))
    }

    pub(super) fn hit<V>(&self, outcome: &Outcome<V>) {
        match outcome {
            Outcome::Absent(_) => self.hits_absent.inc(),
            Outcome::Found(_) | Outcome::Failed(_) => self.hits.inc(),
        };
    }

    pub(super) fn loaded<V>(&self, outcome: &Outcome<V>) {
        match outcome {
            Outcome::Found(_) => self.found.inc(),
            Outcome::Absent(_) => self.absent.inc(),
            Outcome::Failed(_) => self.failed.inc(),
        };
    }

    pub(super) fn served_stale(&self, error: &LookupError) {
        tracing::debug!(%error, "serving a stale record");
        self.stale.inc();
    }

    /// Whether the last store call found the store unavailable, late or
    /// overloaded, even if a copy answered in its place.
    #[must_use]
    pub fn unavailable(&self) -> bool {
        self.unavailable.load(Ordering::Relaxed)
    }

    /// Takes the store for available: it answered another part of the server.
    pub(super) fn store_answered(&self) {
        self.unavailable.store(false, Ordering::Relaxed);
    }

    pub(super) fn asked(&self, time: Duration, answer: &store::Result<Answer<OpenKey>>) {
        if answer.is_err() {
            self.calls_failed.inc();
        }
        let unavailable = match answer {
            Ok(answer) => answer.is_stale,
            // The store answers other calls.
            Err(StoreError::Failed(_)) => false,
            Err(error) => error.is_retryable(),
        };
        // Mostly unchanged: a read leaves the cache line shared by all cores.
        if self.unavailable() != unavailable {
            self.unavailable.store(unavailable, Ordering::Relaxed);
        }
        let class = CALL_BOUNDS
            .iter()
            .position(|bound| time.as_secs_f64() <= *bound)
            .unwrap_or(CALL_BOUNDS.len());
        self.calls[class].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.call_micros.inc_by(micros);
    }
}
