//! Operations of a write, and their preconditions.

use std::fmt;

use crate::credential::{CredentialId, SealedBytes, StoredCredential};
use crate::host::HostPattern;
use crate::lineage::{Fence, Lineage, LineageName};
use crate::record::HostRecord;
use crate::store::{Document, DocumentId};

/// Operation of a write. `S` is the form of its secrets: [`Secret`] where a
/// caller asks for it, [`SealedBytes`] where a catalog does it.
///
/// [`Secret`]: crate::credential::Secret
#[derive(Clone, Debug)]
pub enum Write<S> {
    /// Stores a credential.
    PutCredential(StoredCredential<S>, Precondition),
    /// Stores a host record.
    PutHost(HostRecord, Precondition),
    /// Removes a host record; removing an absent one under [`Precondition::Any`]
    /// changes nothing.
    RemoveHost(HostPattern, Precondition),
    /// Stores a document.
    PutDocument(Document<S>, Precondition),
    /// Removes a document, like a host.
    RemoveDocument(DocumentId, Precondition),
    /// Stores a lineage.
    PutLineage(Lineage<S>, Fence),
    /// Removes a lineage; removing an absent one under [`Fence::Any`] changes
    /// nothing.
    RemoveLineage(LineageName, Fence),
    /// Changes nothing: the batch happens only if this document is as
    /// expected.
    Require(DocumentId, Precondition),
}

/// Replacement of a sealed secret by another sealing of it.
#[derive(Clone, Debug)]
pub struct Reseal {
    /// Whose secret it is.
    pub of: SecretOf,
    /// The version that was read; 0 of a lineage, which has none.
    pub version: u64,
    /// As it was read.
    pub from: SealedBytes,
    /// As it is to be.
    pub to: SealedBytes,
}

/// Place of a sealed secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SecretOf {
    /// The key of a credential.
    Credential(CredentialId),
    /// The content of a document.
    Document(DocumentId),
    /// The order of a lineage.
    Lineage(LineageName),
}

impl fmt::Display for SecretOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Credential(id) => id.fmt(f),
            Self::Document(id) => id.fmt(f),
            Self::Lineage(name) => write!(f, "lineage {name}"),
        }
    }
}

/// Precondition of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The operation always happens.
    Any,
    /// The subject must not exist.
    Absent,
    /// The subject must have exactly this version.
    Version(u64),
}
