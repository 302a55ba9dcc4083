//! Counters of the Redis cache.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sekisho_certs::metrics::Writer;

/// Outcome of a lookup in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// Redis had the answer.
    Hit,
    /// Redis had none, or nothing of use.
    Miss,
    /// Redis was not asked, failed, took too long, or was behind.
    PassedOver,
}

impl Read {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::Hit, Self::Miss, Self::PassedOver];

    /// The word in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::PassedOver => "passed_over",
        }
    }
}

/// Outcome of storing an answer in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filled {
    /// Redis has it.
    Stored,
    /// Something of it had changed meanwhile, or it is too large.
    Refused,
    /// Redis failed.
    Failed,
    /// Too many were under way.
    Dropped,
}

impl Filled {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Stored, Self::Refused, Self::Failed, Self::Dropped];

    /// The word in metrics.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Dropped => "dropped",
        }
    }
}

/// Counters that only grow. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    reads: [AtomicU64; Read::ALL.len()],
    fills: [AtomicU64; Filled::ALL.len()],
    damaged: AtomicU64,
    usable: AtomicBool,
}

impl Counts {
    /// Look-ups with that outcome.
    pub(super) fn reads(&self, read: Read) -> u64 {
        self.0.reads[read as usize].load(Ordering::Relaxed)
    }

    /// Answers of the catalog with that outcome.
    pub(super) fn fills(&self, filled: Filled) -> u64 {
        self.0.fills[filled as usize].load(Ordering::Relaxed)
    }

    /// Misses for a value that could not be used.
    pub(super) fn unusable_values(&self) -> u64 {
        self.0.damaged.load(Ordering::Relaxed)
    }

    /// Whether Redis is asked at the moment.
    pub(super) fn is_usable(&self) -> bool {
        self.0.usable.load(Ordering::Relaxed)
    }

    /// Writes them as metrics.
    pub(super) fn write(&self, to: &mut Writer<'_>) -> fmt::Result {
        let reads = Read::ALL.map(|read| (read.as_str(), self.reads(read)));
        let help = "Lookups that came to Redis before the catalog, by outcome";
        to.family("redis_cache_reads", help, "outcome", &reads)?;
        let fills = Filled::ALL.map(|filled| (filled.as_str(), self.fills(filled)));
        let help = "Answers of the catalog that were offered to Redis, by outcome";
        to.family("redis_cache_fills", help, "outcome", &fills)?;
        to.counter(
            "redis_cache_unusable_values",
            "Values in Redis that could not be used (within miss, or not opened)",
            &self.unusable_values(),
        )?;
        to.gauge(
            "redis_cache_in_use",
            "Whether Redis before the catalog is asked (0: passed over)",
            &u64::from(self.is_usable()),
        )
    }

    pub(super) fn read(&self, read: Read) {
        self.0.reads[read as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn filled(&self, filled: Filled) {
        self.0.fills[filled as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many there are by now.
    pub(super) fn damaged(&self) -> u64 {
        self.0.damaged.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn usable(&self, usable: bool) {
        self.0.usable.store(usable, Ordering::Relaxed);
    }
}
