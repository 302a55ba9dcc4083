//! The wall clock as a value, so that tests move it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Source of the wall time. Leases, document expiry and certificate dates use
/// it; freshness and deadlines use the monotonic clock instead.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock that a test moves: milliseconds since the Unix epoch.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// Returns milliseconds since the Unix epoch; negative before it.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        match self {
            Self::System => match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
            },
            Self::Manual(ms) => ms.load(Ordering::SeqCst),
        }
    }

    /// Returns seconds since the Unix epoch, rounded down.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now_ms().div_euclid(1000)
    }
}
