//! Why a lineage has no new certificate.

use sekisho_certs::{HostPattern, StoreError};

use crate::accounts::AccountError;
use crate::acme::{self, Blame, Fault, Retry};
use crate::authorities::{NO_CA, NoAuthority};
use crate::metrics::Metrics;
use crate::quota::RetryAt;
use crate::schedule;
use crate::settings::SettingError;
use crate::solver::{Solvers, dns01};

/// Failure of one attempt.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// At the CA, or on the way to it.
    #[error(transparent)]
    Acme(#[from] acme::Error),
    /// While the records of DNS-01 were written.
    #[error("dns-01: {0}")]
    Dns(#[from] dns01::Error),
    /// The catalog did not do its part.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Nothing allows an order before this Unix second.
    #[error("{why}")]
    Closed {
        until: i64,
        why: String,
        /// True if a limit is used up, which the names share. Else no CA works.
        is_limit: bool,
    },
    /// Somebody must change the configuration or the wishes of the lineage.
    #[error("{0}")]
    Setting(String),
    /// This server's configuration lacks what another's may have: a zone, a challenge, a
    /// CA.
    #[error("{0}")]
    Lacking(String),
    /// The claim has ended: another process has it, or removed the lineage.
    #[error("{CLAIM_LOST}")]
    ClaimLost,
    /// No host refers to the certificate any more.
    #[error("no host refers to the certificate")]
    Unused,
}

impl Failure {
    /// Makes the failure of a lineage that no CA is worth asking for. `now` is in Unix
    /// seconds.
    pub(super) fn of(no: NoAuthority, now: i64) -> Self {
        match no {
            NoAuthority::PassedOver { why, retry_after } => {
                // Rounded up: a moment before it opens, the CA is passed over once more.
                let pause = i64::try_from(retry_after.as_secs()).unwrap_or(i64::MAX);
                let until = now.saturating_add(pause).saturating_add(1);
                Self::Closed {
                    until,
                    why,
                    is_limit: false,
                }
            }
            NoAuthority::Unknown { .. } => Self::Lacking(no.to_string()),
            NoAuthority::Forbidden(_) => Self::Setting(no.to_string()),
        }
    }

    pub(super) fn closed(ca: &str, RetryAt(until): RetryAt) -> Self {
        let why = format!("{LIMITS} {ca} allow no order now");
        Self::Closed {
            until,
            why,
            is_limit: true,
        }
    }

    /// Returns that of two failures after which another attempt is sooner worth it.
    pub(super) fn or_sooner(self, other: Option<Self>) -> Self {
        match other {
            Some(other) if other.opens() <= self.opens() => other,
            _ => self,
        }
    }

    /// Returns the Unix second from which an order is allowed; the least number if nothing
    /// is closed.
    fn opens(&self) -> i64 {
        match self {
            Self::Closed { until, .. } => *until,
            _ => i64::MIN,
        }
    }

    /// Returns the failure with a limit that opens by this Unix second.
    pub(super) fn closed_at_most(mut self, latest: i64) -> Self {
        if let Self::Closed { until, .. } = &mut self {
            *until = latest.min(*until);
        }
        self
    }

    /// Tells whether a limit of a CA is used up.
    pub(super) fn is_of_limit(&self) -> bool {
        matches!(self, Self::Closed { is_limit: true, .. })
    }

    /// Returns who must change something.
    pub(super) fn blame(&self) -> Blame {
        match self {
            Self::Acme(error) => error.blame(),
            Self::Dns(error) => error.blame(),
            Self::Setting(_) | Self::Lacking(_) => Blame::Operator,
            Self::Unused => Blame::Host,
            Self::Store(_) | Self::Closed { .. } | Self::ClaimLost => Blame::Ca,
        }
    }

    /// Returns those of these names that bear the blame, by name.
    pub(super) fn blamed(&self, names: &[HostPattern]) -> Vec<HostPattern> {
        let is_blamed = |name: &&HostPattern| match self {
            Self::Acme(error) if error.blame() == Blame::Host => error
                .problem()
                .is_some_and(|problem| problem.names(name.as_str())),
            Self::Dns(error) if error.blame() == Blame::Host => *error.name == *name.as_str(),
            _ => false,
        };
        names.iter().filter(is_blamed).cloned().collect()
    }

    /// Returns the setting that a CA or a name server refused.
    pub(super) fn setting(&self, solvers: &Solvers, names: &[HostPattern]) -> Option<SettingError> {
        match self {
            Self::Acme(error) => match &error.fault {
                Fault::Setting { .. } | Fault::Untrusted(_) => Some(error.clone().into()),
                _ => None,
            },
            Self::Dns(error) => {
                let is_of = |name: &&HostPattern| {
                    let bare = name.wildcard_parent().unwrap_or(name.as_str());
                    error.name.contains(bare)
                };
                solvers.setting(names.iter().find(is_of)?, error)
            }
            _ => None,
        }
    }

    /// Counts the failure by who must change something.
    pub(super) fn count(&self, metrics: &Metrics) {
        let counter = match (self, self.blame()) {
            (Self::Closed { .. }, _) => &metrics.failed_quota,
            (Self::Store(_) | Self::ClaimLost, _) => &metrics.failed_store,
            (_, Blame::Ca) => &metrics.failed_ca,
            (_, Blame::Host) => &metrics.failed_host,
            (_, Blame::Operator) => &metrics.failed_operator,
        };
        counter.inc();
    }

    /// Returns what the schedule makes of it. `now` is in Unix seconds.
    pub(super) fn kind(&self, now: i64) -> schedule::Failure {
        if let Self::Closed {
            until, is_limit, ..
        } = self
        {
            let until = *until;
            return match is_limit {
                true => schedule::Failure::Closed { until },
                false => schedule::Failure::PassedOver { until },
            };
        }
        if let Self::Acme(error) = self
            && let Retry::After(pause) = error.retry()
        {
            let pause = i64::try_from(pause.as_secs()).unwrap_or(i64::MAX);
            let until = now.saturating_add(pause.min(LONGEST_PAUSE));
            return schedule::Failure::PassedOver { until };
        }
        match self.blame() {
            Blame::Ca => schedule::Failure::Authority,
            Blame::Host | Blame::Operator => schedule::Failure::Names,
        }
    }

    /// Tells whether the CA could not validate a name: another challenge may do.
    pub(super) fn is_validation(&self) -> bool {
        match self {
            Self::Dns(_) => true,
            Self::Acme(error) => match &error.fault {
                Fault::Unsupported(_) => true,
                // A name that does not resolve does so for no challenge.
                Fault::Invalid(problem) => {
                    error.blame() == Blame::Host && !error.is_forbidden() && problem.kind != "dns"
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Tells whether the CA has issued a certificate, which can't be used.
    pub(super) fn has_certificate(&self) -> bool {
        let Self::Acme(error) = self else {
            return false;
        };
        matches!(error.fault, Fault::Certificate(_) | Fault::Names(_))
    }

    /// Tells whether the order may be gone on with: its URL stays saved.
    pub(super) fn leaves_order(&self) -> bool {
        match self {
            Self::Acme(error) => match &error.fault {
                Fault::Pending(_)
                | Fault::Unreachable(_)
                | Fault::Untrusted(_)
                | Fault::Malformed(_) => true,
                Fault::Refused { status, .. } => *status >= 500 || error.is_rate_limit(),
                Fault::Invalid(_)
                | Fault::Unsupported(_)
                | Fault::Setting { .. }
                | Fault::Certificate(_)
                | Fault::Names(_) => false,
            },
            Self::Dns(_) | Self::Store(_) | Self::ClaimLost | Self::Lacking(_) => true,
            Self::Closed { .. } | Self::Setting(_) | Self::Unused => false,
        }
    }
}

impl From<AccountError> for Failure {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Ca(error) => Self::Acme(error),
            AccountError::Store(error) => Self::Store(error),
            // Another process is at it, or was killed: its lease ends.
            AccountError::Busy(_) | AccountError::Absent(..) | AccountError::Import(..) => {
                Self::Store(StoreError::Unavailable(error.to_string().into()))
            }
        }
    }
}

/// Returns what a stored failure says of its cause: the part behind [`BEFORE`], else all
/// of it. None if it says only that nothing is asked now.
pub(super) fn cause(text: &str) -> Option<&str> {
    let cause = text.split_once(BEFORE).map_or(text, |(_, cause)| cause);
    let is_closed = [LIMITS, NO_CA].iter().any(|begin| cause.starts_with(begin));
    (!is_closed).then_some(cause)
}

/// Stands before the failure that a closed limit followed.
pub(super) const BEFORE: &str = "; the failure before: ";
/// Begin of the reason where a limit is used up.
const LIMITS: &str = "the limits of";
/// Reason where a claim has ended before the work.
pub(super) const CLAIM_LOST: &str =
    "the claim was lost: another process has it, or the lineage was removed";
/// Seconds of the longest `Retry-After` that is heeded: a renewal is not put off beyond
/// what is left of its certificate.
const LONGEST_PAUSE: i64 = 24 * 3600;

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(until: i64) -> Failure {
        let why = "limits".to_owned();
        Failure::Closed {
            until,
            why,
            is_limit: true,
        }
    }

    fn down() -> Failure {
        Failure::Store(StoreError::Unavailable("down".into()))
    }

    #[test]
    fn the_cause_of_a_failure_outlives_closed_limits() {
        let why = Failure::closed("ca", RetryAt(9)).to_string();
        assert_eq!(cause(&why), None);
        let refused = "ca: validating a.example: connection: refused";
        assert_eq!(cause(refused), Some(refused));
        assert_eq!(cause(&format!("{why}{BEFORE}{refused}")), Some(refused));
    }

    #[test]
    fn the_failure_that_passes_sooner_counts() {
        let until = |failure: Failure| match failure {
            Failure::Closed { until, .. } => Some(until),
            _ => None,
        };
        assert_eq!(until(closed(9).or_sooner(None)), Some(9));
        assert_eq!(until(closed(9).or_sooner(Some(closed(5)))), Some(5));
        assert_eq!(until(closed(5).or_sooner(Some(closed(9)))), Some(5));
        assert_eq!(until(closed(5).or_sooner(Some(down()))), None);
        assert_eq!(until(down().or_sooner(Some(closed(5)))), None);
        assert_eq!(until(closed(9).closed_at_most(7)), Some(7));
        assert_eq!(until(closed(5).closed_at_most(7)), Some(5));
    }
}
