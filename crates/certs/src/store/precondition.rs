//! Checks of what a write requires, and the errors that all catalogs share.

use std::fmt::Display;

use crate::credential::{CredentialId, KeyType};
use crate::host::HostPattern;
use crate::lineage::{Fence, LineageName};
use crate::record::HostRecord;
use crate::store::{Precondition, Result, StoreError};

impl Precondition {
    /// Compares itself with the version that is stored, none if nothing is.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if it does not hold; names the subject.
    pub fn check(self, subject: &impl Display, stored: Option<u64>) -> Result<()> {
        let text = match (self, stored) {
            (Self::Any, _) | (Self::Absent, None) => return Ok(()),
            (Self::Version(wanted), Some(version)) if wanted == version => return Ok(()),
            (Self::Absent, Some(_)) => format!("{subject} exists already"),
            (Self::Version(_), None) => format!("{subject} does not exist any more"),
            (Self::Version(wanted), Some(version)) => {
                format!("{subject} was changed meanwhile: version {version}, expected {wanted}")
            }
        };
        Err(StoreError::Conflict(text.into()))
    }
}

impl Fence {
    /// Compares itself with what is stored: none without the lineage, else the
    /// epoch of the claim that holds.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if it does not hold; names the lineage.
    pub fn check(self, name: &LineageName, stored: Option<Option<u64>>) -> Result<()> {
        let what = match (self, stored) {
            (Self::Any, _) | (Self::Absent, None) => return Ok(()),
            (Self::Epoch(ours), Some(Some(epoch))) if ours == epoch => return Ok(()),
            (Self::Absent, Some(_)) => "exists already",
            (Self::Epoch(_), None) => "does not exist any more",
            (Self::Epoch(_), Some(None)) => "is not claimed any more: the claim has ended",
            (Self::Epoch(_), Some(Some(_))) => "was claimed by another meanwhile",
        };
        Err(StoreError::Conflict(
            format!("lineage {name} {what}").into(),
        ))
    }
}

/// Makes the conflict of a record that refers to a missing credential.
#[must_use]
pub fn dangling(pattern: &HostPattern, id: CredentialId) -> StoreError {
    StoreError::Conflict(format!("{pattern} is to refer to {id}, which does not exist").into())
}

/// Refuses a stored record that can't be read.
///
/// # Errors
/// [`StoreError::Corrupt`] with the host's name.
pub fn readable(record: &HostRecord) -> Result<()> {
    match &record.unreadable {
        None => Ok(()),
        Some(why) => {
            let text = format!("host {}: {why}", record.pattern);
            Err(StoreError::Corrupt(text.into()))
        }
    }
}

/// Makes the error of a stored record whose credential is missing.
#[must_use]
pub fn missing(record: &HostRecord, key_type: KeyType) -> StoreError {
    let (pattern, key_type) = (&record.pattern, key_type.as_str());
    let text = format!("host {pattern} refers to an {key_type} credential that is not there");
    StoreError::Corrupt(text.into())
}

/// Makes the conflict of a reference under another key type than the credential
/// has.
#[must_use]
pub fn other_type(id: CredentialId, is: &str, wanted: KeyType) -> StoreError {
    let wanted = wanted.as_str();
    StoreError::Conflict(format!("{id} has a key of type {is}, not {wanted}").into())
}

/// Makes the refusal of a credential without certificates.
#[must_use]
pub fn no_chain(id: CredentialId) -> StoreError {
    StoreError::Refused(format!("{id} has no certificate").into())
}
