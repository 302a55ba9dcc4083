//! What every catalog says when a write does not hold, in the same words.

use std::fmt::Display;

use crate::credential::{CredentialId, KeyType};
use crate::host::HostPattern;
use crate::store::{Expect, Result, StoreError};

/// Whether what is there, by its version, is what the write expects.
///
/// # Errors
/// [`StoreError::Conflict`] if it is not.
pub fn met(subject: &dyn Display, there: Option<u64>, expect: Expect) -> Result<()> {
    let text = match (expect, there) {
        (Expect::Any, _) | (Expect::Absent, None) => return Ok(()),
        (Expect::Version(wanted), Some(version)) if wanted == version => return Ok(()),
        (Expect::Absent, Some(_)) => format!("{subject} exists already"),
        (Expect::Version(_), None) => format!("{subject} does not exist any more"),
        (Expect::Version(wanted), Some(version)) => {
            format!("{subject} was changed meanwhile: version {version}, expected {wanted}")
        }
    };
    Err(StoreError::Conflict(text.into()))
}

/// The conflict of a record that refers to a credential that is not there.
#[must_use]
pub fn dangling(pattern: &HostPattern, id: CredentialId) -> StoreError {
    StoreError::Conflict(format!("{pattern} is to refer to {id}, which does not exist").into())
}

/// The conflict of a reference under another key type than the credential has.
#[must_use]
pub fn other_type(id: CredentialId, is: &str, wanted: KeyType) -> StoreError {
    let wanted = wanted.as_str();
    StoreError::Conflict(format!("{id} has a key of type {is}, not {wanted}").into())
}

/// The refusal of a credential without certificates.
#[must_use]
pub fn no_chain(id: CredentialId) -> StoreError {
    StoreError::Refused(format!("{id} has no certificate").into())
}
