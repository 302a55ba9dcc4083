//! What a cache in Redis is worth.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What came of asking Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// Redis had the answer.
    Hit,
    /// Redis had none, or nothing of use.
    Miss,
    /// Redis was not asked, failed, took too long, or was behind.
    PassedOver,
}

impl Read {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hit, Self::Miss, Self::PassedOver];

    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::PassedOver => "passed_over",
        }
    }
}

/// What came of storing an answer in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
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
    pub const ALL: [Self; 4] = [Self::Stored, Self::Refused, Self::Failed, Self::Dropped];

    /// The word in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
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
pub struct Counts(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    reads: [AtomicU64; Read::ALL.len()],
    fills: [AtomicU64; Filled::ALL.len()],
    damaged: AtomicU64,
    usable: AtomicBool,
}

impl Counts {
    /// Look-ups with that outcome.
    #[must_use]
    pub fn reads(&self, read: Read) -> u64 {
        self.0.reads[read as usize].load(Ordering::Relaxed)
    }

    /// Answers of the catalog with that outcome.
    #[must_use]
    pub fn fills(&self, filled: Filled) -> u64 {
        self.0.fills[filled as usize].load(Ordering::Relaxed)
    }

    /// Misses for a value that could not be used.
    #[must_use]
    pub fn unusable_values(&self) -> u64 {
        self.0.damaged.load(Ordering::Relaxed)
    }

    /// Whether Redis is asked at the moment.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.0.usable.load(Ordering::Relaxed)
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
