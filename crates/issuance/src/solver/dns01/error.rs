//! Why a record is not there, and whose fault it is.

use crate::acme::Blame;
use sekisho_dns::ResolveError;

/// Failure of DNS-01 for one name, in words for an operator. Never shows a key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{name}: {fault}")]
pub struct Error {
    /// Name of the host or of the record.
    pub name: Box<str>,
    /// Why.
    pub fault: Fault,
}

/// Reason of an [`Error`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum Fault {
    /// DNS can't hold the record: no zone, or CNAMEs that lead nowhere.
    #[error("{0}")]
    Name(String),
    /// The configuration is wrong.
    #[error("{key}: {why}")]
    Setting {
        /// Key of the configuration, such as `tsig`.
        key: &'static str,
        /// Problem with its value.
        why: String,
    },
    /// The writer of the record refused, or failed.
    #[error("{0}")]
    Refused(String),
    /// There is no answer: no connection, broken off, or late.
    #[error("{0}")]
    Unreachable(String),
    /// Authoritative servers lack the record after the bound of the wait.
    #[error("{0}")]
    Propagation(String),
}

impl Error {
    /// Returns who must change something.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match &self.fault {
            Fault::Name(_) => Blame::Host,
            _ => Blame::Operator,
        }
    }
}

impl Fault {
    pub(crate) fn at(self, name: &str) -> Error {
        Error {
            name: name.into(),
            fault: self,
        }
    }
}

impl From<ResolveError> for Fault {
    fn from(error: ResolveError) -> Self {
        match error {
            ResolveError::NoAnswer(_) => Self::Unreachable(error.to_string()),
            ResolveError::Aliases(_) | ResolveError::Name(..) => Self::Name(error.to_string()),
        }
    }
}
