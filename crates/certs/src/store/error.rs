//! Why a store gave no answer.

use std::sync::Arc;
use std::time::Duration;

/// Reason why a store gave no answer. Cheap to clone: all waiters share it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// The store can't be reached, or broke off.
    #[error("the store is unavailable: {0}")]
    Unavailable(Arc<str>),
    /// The store did not answer in time.
    #[error("the store did not answer within {0:?}")]
    TimedOut(Duration),
    /// The call failed, but the store answers others. A client picks the host,
    /// and no host may shut the store off for all.
    #[error("the store failed on this call: {0}")]
    Failed(Arc<str>),
    /// The limit of calls in flight and waiting is reached.
    #[error("too many calls to the store are in flight")]
    Overloaded,
    /// Stored data can't be used; says which and where.
    #[error("{0}")]
    Corrupt(Arc<str>),
    /// A write met another state than it expected; says which.
    #[error("{0}")]
    Conflict(Arc<str>),
    /// The store does not take such input; says why.
    #[error("{0}")]
    Refused(Arc<str>),
}

impl StoreError {
    /// Tells whether the same call may succeed later without anybody's help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_) | Self::TimedOut(_) | Self::Failed(_) | Self::Overloaded
        )
    }
}
