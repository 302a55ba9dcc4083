//! Metrics of the disk cache.

use std::fmt;

use sekisho_certs::metrics::Writer;

/// Figures for metrics, as of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Hosts that have a copy.
    pub copies: u64,
    /// Bytes of the file that are in use.
    pub bytes: u64,
    /// Bytes that file and log may have.
    pub capacity: u64,
    /// Calls that were answered by a copy.
    pub answers: u64,
    /// Answers that were copied.
    pub kept: u64,
    /// Answers that were not copied: too many waited, the disk did not take
    /// them, or they were too large.
    pub dropped: u64,
}

impl Stats {
    /// Writes them as metrics.
    pub(super) fn write(&self, to: &mut Writer<'_>) -> fmt::Result {
        for (name, help, value) in [
            ("copies", "Hosts with a copy on disk", self.copies),
            ("bytes", "Bytes of copies on disk", self.bytes),
            (
                "capacity_bytes",
                "Bytes that copies may take on disk",
                self.capacity,
            ),
        ] {
            to.gauge(&format!("disk_cache_{name}"), help, &value)?;
        }
        let answers = "Store calls that failed and were answered by a copy on disk";
        for (name, help, value) in [
            ("answers", answers, self.answers),
            ("kept", "Answers copied to disk", self.kept),
            (
                "dropped",
                "Answers that were not copied to disk",
                self.dropped,
            ),
        ] {
            to.counter(&format!("disk_cache_{name}"), help, &value)?;
        }
        Ok(())
    }
}
