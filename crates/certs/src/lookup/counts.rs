//! Metrics of the lookup.

use std::fmt;
use std::sync::Arc;

use prometheus_client::metrics::MetricType;

use super::{Lookup, Outcome};
use crate::cache::Usage;
use crate::metrics::{
    BusyCounter, Collector, Counter, Counters, DescriptorEncoder, Gauge, Registry, gauge,
};
use crate::store::FeedState;

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
    /// False if the last store call found the store unavailable, late or
    /// overloaded, even if a copy answered in its place.
    pub store_available: bool,
    /// Counters since the start.
    pub counts: Counts,
}

/// Counters since the start, and what goes on now. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Lookups that the cache answered with a record.
    pub hits: BusyCounter,
    /// Lookups that the cache answered with an absence, or with a failure to
    /// obtain a certificate.
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
    /// Store calls that gave an error.
    pub calls_failed: Counter,
    /// Loads that wait for a certificate now.
    pub obtaining: Gauge,
}

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Registers the metrics of cache, loads, store and feed.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        self.counts.register(registry);
        let help = "Time of store calls";
        registry.register("store_call_seconds", help, self.call_seconds.clone());
        registry.register_collector(Box::new(Arc::clone(self)));
    }
}

impl<V: Send + Sync + 'static> Collector for Lookup<V> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (to, stats) = (&mut encoder, self.stats());
        let usage = &stats.usage;
        gauge(to, "cache_bytes", "Bytes of cached hosts", &usage.bytes)?;
        let help = "Bytes that cached hosts may take";
        gauge(to, "cache_capacity_bytes", help, &usage.capacity)?;
        gauge(to, "cache_records", "Cached host records", &usage.records)?;
        let help = "Cached absences and aliases below wildcards";
        gauge(to, "cache_notes", help, &usage.notes)?;
        let help = "Credentials in memory";
        gauge(to, "cache_credentials", help, &stats.credentials)?;
        gauge(to, "loads_in_flight", "Loads in flight", &stats.in_flight)?;
        let help = "Number of the last applied change";
        gauge(to, "log_position", help, &stats.position)?;
        let help = "Whether the last store call was answered (1 before the first)";
        let available = u64::from(stats.store_available);
        gauge(to, "store_available", help, &available)?;
        let help = "State of the change feed";
        let mut feed = to.encode_descriptor("feed_state", help, None, MetricType::Gauge)?;
        for state in FeedState::ALL {
            let is_state = u64::from(stats.feed == state);
            feed.encode_family(&[("state", state.as_str())])?
                .encode_gauge(&is_state)?;
        }
        Ok(())
    }
}

impl<V> fmt::Debug for Lookup<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").finish_non_exhaustive()
    }
}

impl Counts {
    fn register(&self, registry: &mut Registry) {
        let help = "Lookups answered by a cached record";
        registry.register("cache_hits", help, self.hits.clone());
        let help = "Lookups answered by a cached absence or failed issuance";
        registry.register("cache_hits_absent", help, self.hits_absent.clone());
        let help = "Lookups that joined a load in flight";
        registry.register("cache_joined", help, self.joined.clone());
        let loads = Counters {
            label: "outcome",
            each: [
                ("found", self.found.clone()),
                ("absent", self.absent.clone()),
                ("failed", self.failed.clone()),
            ],
        };
        registry.register("loads", "Loads by outcome", loads);
        let help = "Loads that failed and served what was remembered (within found)";
        registry.register("stale_served", help, self.stale.clone());
        let help = "Store calls that gave an error";
        registry.register("store_errors", help, self.calls_failed.clone());
        let help = "Loads that wait for a certificate (within in flight)";
        registry.register("loads_obtaining", help, self.obtaining.clone());
    }

    pub(super) fn hit<V>(&self, outcome: &Outcome<V>) {
        match outcome {
            Outcome::Found(_) => self.hits.inc(),
            Outcome::Absent(_) | Outcome::Failed(_) => self.hits_absent.inc(),
        };
    }

    pub(super) fn loaded<V>(&self, outcome: &Outcome<V>) {
        match outcome {
            Outcome::Found(_) => self.found.inc(),
            Outcome::Absent(_) => self.absent.inc(),
            Outcome::Failed(_) => self.failed.inc(),
        };
    }

    /// Tells whether a load has ended: then the store was asked.
    #[must_use]
    pub fn was_asked(&self) -> bool {
        self.found.get() + self.absent.get() + self.failed.get() > 0
    }
}

/// Upper bounds of the buckets of store calls, seconds.
pub(super) const CALL_BOUNDS: [f64; 10] = [
    0.000_02, 0.000_05, 0.000_1, 0.000_25, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0,
];
