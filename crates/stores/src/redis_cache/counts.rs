//! Counters of the Redis cache.

use sekisho_certs::metrics::{Counter, Counters, Gauge, Registry};

/// Counters that only grow, and whether Redis is asked. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    /// Lookups that Redis answered.
    pub(super) hits: Counter,
    /// Lookups for which Redis had nothing, or nothing of use.
    pub(super) misses: Counter,
    /// Lookups for which Redis was not asked, failed, took too long, or was behind.
    pub(super) passed_over: Counter,
    /// Answers that Redis has stored.
    pub(super) stored: Counter,
    /// Answers of which something had changed meanwhile, or that are too large.
    pub(super) refused: Counter,
    /// Answers that were not stored since Redis failed.
    pub(super) failed: Counter,
    /// Answers that were not stored since too many were under way.
    pub(super) dropped: Counter,
    /// Values that could not be used.
    pub(super) unusable_values: Counter,
    in_use: Gauge,
}

impl Counts {
    pub(super) fn register(&self, registry: &mut Registry) {
        let label = "outcome";
        let each = [
            ("hit", self.hits.clone()),
            ("miss", self.misses.clone()),
            ("passed_over", self.passed_over.clone()),
        ];
        let help = "Lookups that came to Redis before the catalog, by outcome";
        registry.register("redis_cache_reads", help, Counters { label, each });
        let each = [
            ("stored", self.stored.clone()),
            ("refused", self.refused.clone()),
            ("failed", self.failed.clone()),
            ("dropped", self.dropped.clone()),
        ];
        let help = "Answers of the catalog that were offered to Redis, by outcome";
        registry.register("redis_cache_fills", help, Counters { label, each });
        let (name, unusable) = ("redis_cache_unusable_values", self.unusable_values.clone());
        let help = "Values in Redis that could not be used (within miss, or not opened)";
        registry.register(name, help, unusable);
        let help = "Whether Redis before the catalog is asked (0: passed over)";
        registry.register("redis_cache_in_use", help, self.in_use.clone());
    }

    /// Tells whether Redis is asked at the moment.
    pub(super) fn is_usable(&self) -> bool {
        self.in_use.get() == 1
    }

    pub(super) fn usable(&self, usable: bool) {
        self.in_use.set(usable.into());
    }
}
