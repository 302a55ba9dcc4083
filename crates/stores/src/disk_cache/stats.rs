//! Metrics of the disk cache.

use sekisho_certs::metrics::{ConstGauge, Counter, Gauge, Registry};

/// Figures for metrics. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    /// Hosts that have a copy. Only the writer's thread changes the number.
    pub(super) copies: Gauge,
    /// Bytes of the file that are in use.
    pub(super) bytes: Gauge,
    /// 1 if the file has what a start without the catalog needs.
    pub(super) start_state: Gauge,
    /// Calls that were answered by a copy.
    pub(super) answers: Counter,
    /// Answers that were copied.
    pub(super) kept: Counter,
    /// Answers that were not copied: too many waited, the disk did not take
    /// them, or they were too large.
    pub(super) dropped: Counter,
}

impl Stats {
    /// Registers them, with the bytes that file and write-ahead log may have.
    pub(super) fn register(&self, registry: &mut Registry, capacity: u64) {
        let help = "Hosts with a copy on disk";
        registry.register("disk_cache_copies", help, self.copies.clone());
        let help = "Bytes of copies on disk";
        registry.register("disk_cache_bytes", help, self.bytes.clone());
        let help = "Bytes that copies may take on disk";
        let capacity = ConstGauge::new(capacity);
        registry.register("disk_cache_capacity_bytes", help, capacity);
        let help = "Whether the disk cache has what a start without the catalog needs";
        registry.register("disk_cache_start_state", help, self.start_state.clone());
        let help = "Store calls that failed and were answered by a copy on disk";
        registry.register("disk_cache_answers", help, self.answers.clone());
        let help = "Answers copied to disk";
        registry.register("disk_cache_kept", help, self.kept.clone());
        let help = "Answers that were not copied to disk";
        registry.register("disk_cache_dropped", help, self.dropped.clone());
    }
}
