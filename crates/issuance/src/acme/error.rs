//! Why a CA gave no certificate: whose fault it is, and when to try again.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::credential::CredentialError;

use super::problem::Problem;

/// Failure of a request to a CA, in words for an operator. Never shows a key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{ca}: {step}: {fault}")]
pub struct Error {
    /// Name of the CA.
    pub ca: Arc<str>,
    /// Step that failed, with its names.
    pub step: Box<str>,
    /// Why.
    pub fault: Fault,
}

/// Reason of an [`Error`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// The CA answered with an error.
    #[error("{}", refused(*status, problem.as_deref()))]
    Refused {
        /// Status of HTTP.
        status: u16,
        /// The CA's own words; none if it sent something else.
        problem: Option<Box<Problem>>,
        /// Time until the CA wants to be asked again, from the answer on.
        retry_after: Option<Duration>,
    },
    /// The CA tried to validate a name, or to issue, and gave up; the order is over.
    #[error("{0}")]
    Invalid(Box<Problem>),
    /// The order is not done within the time that the caller gave. It goes on.
    #[error("the CA is not done yet; the next look is due in {} s", .0.as_secs())]
    Pending(Duration),
    /// There is no answer: no connection, broken off, or late.
    #[error("{0}")]
    Unreachable(String),
    /// The CA's HTTPS certificate is signed by no authority that is trusted here.
    #[error("{0}")]
    Untrusted(String),
    /// The answer is none of ACME's.
    #[error("the answer is unusable: {0}")]
    Malformed(String),
    /// The CA has no such feature.
    #[error("the CA has no {0}")]
    Unsupported(String),
    /// The configuration is wrong.
    #[error("{key}: {why}")]
    Setting {
        /// Key of the configuration, such as `eab_key`.
        key: &'static str,
        /// Problem with its value.
        why: String,
    },
    /// The certificate that was issued can't be used.
    #[error("the certificate is unusable: {0}")]
    Certificate(#[from] CredentialError),
    /// The certificate lacks these names.
    #[error("the certificate is not for {0}")]
    Names(String),
}

/// Party that must change something before a certificate can be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The CA: another one may do.
    Ca,
    /// Owner of the host: its DNS, its web server, or the name itself. Other CAs
    /// would answer likewise.
    Host,
    /// The operator: configuration or account.
    Operator,
}

/// Advice about another attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Not before somebody has changed something.
    Never,
    /// After a pause of the caller's choice.
    Later,
    /// When the CA says: after this time, from now on.
    After(Duration),
}

impl Error {
    /// Returns who must change something.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match &self.fault {
            Fault::Refused { problem, .. } => problem.as_deref().map_or(Blame::Ca, Problem::blame),
            Fault::Invalid(problem) => match problem.blame() {
                Blame::Ca if !matches!(problem.kind.as_str(), "" | "serverInternal") => Blame::Host,
                // At a challenge, `unauthorized` means that the host's answer was wrong.
                Blame::Operator => Blame::Host,
                blame => blame,
            },
            Fault::Untrusted(_) | Fault::Setting { .. } => Blame::Operator,
            Fault::Pending(_)
            | Fault::Unreachable(_)
            | Fault::Malformed(_)
            | Fault::Unsupported(_)
            | Fault::Certificate(_)
            | Fault::Names(_) => Blame::Ca,
        }
    }

    /// Returns whether another attempt is worth it.
    #[must_use]
    pub fn retry(&self) -> Retry {
        match &self.fault {
            Fault::Refused {
                retry_after: Some(after),
                ..
            }
            | Fault::Pending(after) => Retry::After(*after),
            Fault::Refused {
                problem: Some(problem),
                ..
            } if !problem.may_pass() => Retry::Never,
            Fault::Invalid(problem) if problem.kind == "rejectedIdentifier" => Retry::Never,
            Fault::Unsupported(_) | Fault::Setting { .. } => Retry::Never,
            _ => Retry::Later,
        }
    }

    /// Returns the CA's own words.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        self.fault.problem()
    }

    /// Tells whether the CA has no such order, or none for this account: the order begins
    /// anew. Asked of errors of [`super::Account::resume`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self.fault.status(), Some(403 | 404 | 410))
    }

    /// Tells whether the CA may have refused the account rather than the request: it
    /// does not know the account, has ended it, or verified the signature by another
    /// key. Boulder and Pebble call the last one `malformed`.
    #[must_use]
    pub fn doubts_account(&self) -> bool {
        let of_account = ["accountDoesNotExist", "malformed", "unauthorized"];
        self.fault.status().is_some() && self.fault.is_one_of(&of_account)
    }

    /// Tells whether CAA records (RFC 8659) forbid this CA to issue: another one may.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        let is_caa = |problem: &Problem| problem.kind == "caa";
        self.problem()
            .is_some_and(|problem| is_caa(problem) || problem.subproblems.iter().any(is_caa))
    }

    /// Tells whether the CA wants fewer requests (RFC 8555, section 6.6).
    #[must_use]
    pub fn is_rate_limit(&self) -> bool {
        self.fault.status() == Some(429) || self.fault.is_one_of(&["rateLimited"])
    }
}

impl Fault {
    /// Returns the CA's own words.
    fn problem(&self) -> Option<&Problem> {
        match self {
            Self::Refused { problem, .. } => problem.as_deref(),
            Self::Invalid(problem) => Some(problem),
            _ => None,
        }
    }

    /// Returns the status of HTTP with which the CA refused a request.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Tells whether the CA gave a problem of one of these types.
    pub(crate) fn is_one_of(&self, kinds: &[&str]) -> bool {
        let is_it = |problem: &Problem| kinds.contains(&problem.kind.as_str());
        self.problem().is_some_and(is_it)
    }

    /// Returns the fault with its CA and step.
    pub(super) fn at(self, ca: &Arc<str>, step: impl fmt::Display) -> Error {
        Error {
            ca: Arc::clone(ca),
            step: step.to_string().into(),
            fault: self,
        }
    }
}

impl From<instant_acme::Error> for Fault {
    fn from(error: instant_acme::Error) -> Self {
        use instant_acme::Error as Acme;
        match error {
            // Takes the fault that the exchange carried through.
            Acme::Other(other) => match other.downcast::<Self>() {
                Ok(fault) => *fault,
                Err(other) => Self::Malformed(other.to_string()),
            },
            Acme::Api(problem) => Self::Refused {
                status: problem.status.unwrap_or(400),
                problem: Some(Box::new(Problem::from(&problem))),
                retry_after: None,
            },
            Acme::Unsupported(what) => Self::Unsupported(what.to_owned()),
            other => Self::Malformed(other.to_string()),
        }
    }
}

impl From<serde_json::Error> for Fault {
    fn from(error: serde_json::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

fn refused(status: u16, problem: Option<&Problem>) -> String {
    match problem {
        Some(problem) => problem.to_string(),
        None => format!("it answered {status} without a problem document"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, kind: &str, seconds: Option<u64>) -> Error {
        let problem = Problem {
            kind: kind.into(),
            detail: "no".into(),
            ..Problem::default()
        };
        Fault::Refused {
            status,
            problem: (!kind.is_empty()).then(|| Box::new(problem)),
            retry_after: seconds.map(Duration::from_secs),
        }
        .at(&"letsencrypt".into(), "ordering a.example")
    }

    #[test]
    fn errors_say_where_whose_fault_and_when_again() {
        let limited = refusal(429, "rateLimited", Some(60));
        assert_eq!(
            limited.to_string(),
            "letsencrypt: ordering a.example: rateLimited: no"
        );
        assert!(limited.is_rate_limit());
        assert_eq!(limited.retry(), Retry::After(Duration::from_secs(60)));
        assert_eq!(limited.blame(), Blame::Ca);
        let bare = refusal(503, "", None);
        assert!(bare.to_string().contains("503"), "{bare}");
        assert_eq!((bare.retry(), bare.blame()), (Retry::Later, Blame::Ca));
        let account = refusal(401, "unauthorized", None);
        assert_eq!(account.retry(), Retry::Never);
        assert_eq!(account.blame(), Blame::Operator);
        assert!(refusal(404, "malformed", None).is_lost());
    }

    #[test]
    fn an_unauthorized_challenge_is_the_hosts_fault() {
        let problem = Problem {
            kind: "unauthorized".into(),
            ..Problem::default()
        };
        let invalid = Fault::Invalid(Box::new(problem)).at(&"ca".into(), "ordering");
        assert_eq!(
            (invalid.blame(), invalid.retry()),
            (Blame::Host, Retry::Later)
        );
    }

    #[test]
    fn a_ca_may_be_forbidden_and_an_account_doubted() {
        let problem = |kind: &str, subproblems| Problem {
            kind: kind.into(),
            subproblems,
            ..Problem::default()
        };
        let invalid = |problem| Fault::Invalid(Box::new(problem)).at(&"ca".into(), "ordering");
        let caa = || problem("caa", Vec::new());
        assert!(invalid(caa()).is_forbidden());
        assert!(invalid(problem("compound", vec![caa()])).is_forbidden());
        assert!(!invalid(problem("dns", Vec::new())).is_forbidden());
        for kind in ["unauthorized", "accountDoesNotExist", "malformed"] {
            assert!(refusal(403, kind, None).doubts_account(), "{kind}");
            // A challenge says nothing of the account.
            assert!(!invalid(problem(kind, Vec::new())).doubts_account());
        }
        assert!(!refusal(429, "rateLimited", None).doubts_account());
    }
}
