//! What a lookup counts, as metrics.

use std::fmt;
use std::sync::Arc;

use super::counts::{CALL_BOUNDS, Counts, LookupStats};
use super::{FeedState, Lookup};
use crate::metrics::{self, Registry, Writer};

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Registers the metrics of cache, loads, store and feed.
    pub fn register(self: &Arc<Self>, registry: &mut Registry) {
        let lookup = Arc::clone(self);
        metrics::register(registry, move |to| {
            let stats = lookup.stats();
            cache(to, &stats)?;
            loads(to, &stats)?;
            store(to, &stats.counts)?;
            feed(to, &stats)
        });
    }
}

fn cache(to: &mut Writer<'_>, stats: &LookupStats) -> fmt::Result {
    let usage = &stats.usage;
    to.gauge("cache_bytes", "Bytes of cached hosts", &usage.bytes)?;
    to.gauge(
        "cache_capacity_bytes",
        "Bytes that cached hosts may take",
        &usage.capacity,
    )?;
    to.gauge("cache_records", "Cached host records", &usage.records)?;
    to.gauge(
        "cache_notes",
        "Cached absences and aliases below wildcards",
        &usage.notes,
    )?;
    to.gauge(
        "cache_credentials",
        "Credentials in memory",
        &stats.credentials,
    )?;
    let counts = &stats.counts;
    to.counter(
        "cache_hits",
        "Look-ups answered by a cached record",
        &counts.hits.get(),
    )?;
    to.counter(
        "cache_hits_absent",
        "Look-ups answered by a cached absence",
        &counts.hits_absent.get(),
    )?;
    to.counter(
        "cache_joined",
        "Look-ups that joined a load in flight",
        &counts.joined.get(),
    )
}

fn loads(to: &mut Writer<'_>, stats: &LookupStats) -> fmt::Result {
    let counts = &stats.counts;
    to.gauge("loads_in_flight", "Loads in flight", &stats.in_flight)?;
    let loads = [
        ("found", counts.found.get()),
        ("absent", counts.absent.get()),
        ("failed", counts.failed.get()),
    ];
    to.family("loads", "Loads by outcome", "outcome", &loads)?;
    to.counter(
        "stale_served",
        "Loads that failed and served what was remembered (within found)",
        &counts.stale.get(),
    )
}

fn store(to: &mut Writer<'_>, counts: &Counts) -> fmt::Result {
    to.counter(
        "store_errors",
        "Store calls that gave an error",
        &counts.calls_failed.get(),
    )?;
    to.gauge(
        "store_available",
        "Whether the last store call was answered (1 before the first)",
        &u64::from(!counts.unavailable()),
    )?;
    let bounds = CALL_BOUNDS.into_iter().chain([f64::INFINITY]);
    let buckets: Vec<_> = bounds.zip(counts.calls()).collect();
    to.histogram(
        "store_call_seconds",
        "Time of store calls",
        counts.call_micros.get(),
        &buckets,
    )
}

fn feed(to: &mut Writer<'_>, stats: &LookupStats) -> fmt::Result {
    to.gauge(
        "log_position",
        "Number of the last applied change",
        &stats.position,
    )?;
    let is = |state| u64::from(stats.feed == state);
    let states = [
        ("none", is(FeedState::None)),
        ("healthy", is(FeedState::Healthy)),
        ("broken", is(FeedState::Broken)),
    ];
    to.one_of("feed_state", "State of the change feed", "state", &states)
}
