//! Outcome of a lookup, as all waiters of a load share it.

use std::fmt;
use std::sync::Arc;

use crate::cache::{Absence, Served};
use crate::store::StoreError;

/// Outcome of a lookup. Cheap to clone: all waiters share it.
pub enum Outcome<V> {
    /// The record to serve.
    Found(Arc<Served<V>>),
    /// Nothing to serve, as the store answered.
    Absent(Absence),
    /// No answer: neither found nor absent.
    Failed(LookupError),
}

/// Reason why a lookup failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LookupError {
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store's answer can't be served: a bad pair, a bad site.
    #[error("{0}")]
    Unusable(Arc<str>),
    /// Issuance was allowed but did not work.
    #[error("no certificate could be obtained: {0}")]
    NotObtained(Arc<str>),
    /// Issuance did not work, and the next attempt is not due yet.
    #[error("no certificate could be obtained, and the next attempt is not due yet")]
    NotDue,
    /// The client's network asked for too many names that are not here.
    #[error(
        "the client's network asked for too many names that are not here \
         ([server] absent_per_prefix)"
    )]
    OverBudget,
    /// Too many lookups wait for a certificate: a newer one displaced this one.
    #[error("too many clients wait for certificates ([acme] waiting)")]
    Crowded,
    /// The deadline of the lookup passed; the load goes on.
    #[error("there was no answer in time")]
    Late,
    /// Changes overtook every read, or the load's task ended early.
    #[error("the load was broken off")]
    BrokenOff,
}

impl<V> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Found(served) => Self::Found(Arc::clone(served)),
            Self::Absent(reason) => Self::Absent(*reason),
            Self::Failed(error) => Self::Failed(error.clone()),
        }
    }
}

impl<V> fmt::Debug for Outcome<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(served) => write!(f, "Found({})", served.host().record.pattern),
            Self::Absent(reason) => write!(f, "Absent({reason:?})"),
            Self::Failed(error) => write!(f, "Failed({error})"),
        }
    }
}
