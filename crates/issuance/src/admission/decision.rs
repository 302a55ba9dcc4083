//! Answers of admission.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::{HostPattern, Tenant};

use super::caa::Issuers;
use sekisho_dns::ResolveError;

/// Decision about the certificate of a name.
#[derive(Clone, Debug)]
pub enum Decision {
    /// All configured conditions say yes.
    Allowed(Allowed),
    /// A condition says no.
    Refused {
        /// The reason, for the operator.
        why: Arc<str>,
        /// Time until which this is remembered; none if only a change of the
        /// record or of the settings can alter it.
        retry_after: Option<Duration>,
    },
    /// A condition could not be decided: the ask URL or a name server is down.
    Failed {
        /// The cause, for the operator.
        why: Arc<str>,
        /// Time until which this is remembered.
        retry_after: Duration,
    },
}

/// Order that is allowed, and its tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Pattern to order: the record's, which may be a wildcard; else the name.
    pub pattern: HostPattern,
    /// Owner. For a name without a record: the `Sekisho-Tenant` field of the ask
    /// URL's answer, else the registered domain; never the empty tenant, which is
    /// the operator's.
    pub tenant: Tenant,
    /// CAs that the CAA records allow.
    pub issuers: Issuers,
}

/// Why a condition does not say yes.
#[derive(Clone, Debug)]
pub(super) enum No {
    /// A condition says no.
    Refused(Arc<str>),
    /// A condition could not be decided.
    Failed(Arc<str>),
}

impl No {
    /// Makes the decision, which is remembered for this time.
    pub(super) fn decision(&self, retry_after: Duration) -> Decision {
        match self {
            Self::Refused(why) => Decision::Refused {
                why: Arc::clone(why),
                retry_after: Some(retry_after),
            },
            Self::Failed(why) => Decision::Failed {
                why: Arc::clone(why),
                retry_after,
            },
        }
    }
}

impl From<ResolveError> for No {
    fn from(error: ResolveError) -> Self {
        match error {
            // Faults of the customer's own zone.
            ResolveError::Aliases(_) | ResolveError::Name(..) => {
                Self::Refused(error.to_string().into())
            }
            ResolveError::NoAnswer(why) => Self::Failed(why.into()),
        }
    }
}

impl Decision {
    /// Makes a refusal that holds until the record or the settings change.
    pub(super) fn never(why: impl Into<Arc<str>>) -> Self {
        Self::Refused {
            why: why.into(),
            retry_after: None,
        }
    }
}
