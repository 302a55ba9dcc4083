//! What is counted of the disk cache.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// What was to be kept and was not: the queue was full, the disk did not
    /// take it, or it was too large.
    pub dropped: u64,
}

impl Stats {
    /// Writes them as metrics.
    pub(super) fn write(&self, to: &mut Writer<'_>) -> fmt::Result {
        to.gauge(
            "disk_cache_copies",
            "Hosts with a copy on disk",
            &self.copies,
        )?;
        to.gauge("disk_cache_bytes", "Bytes of copies on disk", &self.bytes)?;
        to.gauge(
            "disk_cache_capacity_bytes",
            "Bytes that copies may take on disk",
            &self.capacity,
        )?;
        to.counter(
            "disk_cache_answers",
            "Store calls that failed and were answered by a copy on disk",
            &self.answers,
        )?;
        to.counter("disk_cache_kept", "Answers copied to disk", &self.kept)?;
        to.counter(
            "disk_cache_dropped",
            "Answers that were not copied to disk",
            &self.dropped,
        )
    }
}

/// Counters that a thread and callers share.
#[derive(Debug, Default)]
pub(super) struct Counts {
    copies: AtomicU64,
    bytes: AtomicU64,
    answers: AtomicU64,
    kept: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    pub(super) fn stats(&self, capacity: u64) -> Stats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            copies: read(&self.copies),
            bytes: read(&self.bytes),
            capacity,
            answers: read(&self.answers),
            kept: read(&self.kept),
            dropped: read(&self.dropped),
        }
    }

    pub(super) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn changed(&self, new: usize, gone: usize) {
        let copies = self.copies.load(Ordering::Relaxed) + new as u64;
        let copies = copies.saturating_sub(gone as u64);
        self.copies.store(copies, Ordering::Relaxed);
    }

    pub(super) fn kept(&self, number: usize) {
        self.kept.fetch_add(number as u64, Ordering::Relaxed);
    }

    pub(super) fn measured(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.copies.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self, number: usize) {
        self.dropped.fetch_add(number as u64, Ordering::Relaxed);
    }
}
