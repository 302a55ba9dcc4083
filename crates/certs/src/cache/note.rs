//! Notes about single names.

/// Note about a single name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Note {
    /// The store has nothing for this name.
    Absent {
        reason: Absence,
        tried: Tried,
        epoch: u64,
        fresh_until: u64,
        /// End of the note in any case, a healthy feed's too: microseconds of the
        /// lookup's time, `u64::MAX` for none.
        ends: u64,
        /// Version of the wildcard's record, without a credential, that answers the name;
        /// `u64::MAX` if the name's own does, [`UNSERVED`] if none can be served. Plain HTTP
        /// serves that record, as [`Note::Alias`] leads to one over TLS.
        above: u64,
    },
    /// The wildcard above answers, and the name has no record of its own.
    Alias {
        epoch: u64,
        fresh_until: u64,
        /// Version of the wildcard's record that was read with it. A later record may have
        /// been read after the name got one of its own.
        version: u64,
    },
}

/// Attempt to obtain a certificate for a name that is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// No attempt was made, and one is possible. Callers that must not issue take the name
    /// as absent.
    No,
    /// An attempt is not allowed now.
    Refused,
    /// Issuance was allowed and failed: an error, not an absence.
    Failed,
}

/// Reason why a name is not served although the store answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Absence {
    /// Neither the name nor a wildcard above it has a record.
    NoHost,
    /// The record refers to no credential.
    NoCredential,
    /// The operator switched the host off.
    Disabled,
}

/// In place of a version in [`Note::Absent`]: plain HTTP has no record to serve, and need not
/// ask the store again while the note holds.
pub(crate) const UNSERVED: u64 = u64::MAX - 1;
