//! Codec of records and sealed credentials for the Redis cache and the disk
//! cache.
//!
//! A value is a byte for its kind, a byte for its form, and the type's fields as
//! `postcard` writes them. A value of another form is an error, never a
//! guess: a cache takes it for a miss.

use serde::{Deserialize, Serialize};

use sekisho_certs::credential::{SealedBytes, StoredCredential};
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::Found;

/// Why a value has no bytes, or bytes no value. Shows neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// Over [`MAX_VALUE`].
    #[error("the value is larger than what is kept")]
    TooLarge,
    /// Written by another version of the program.
    #[error("the value has form {0}, which this version does not read")]
    Version(u8),
    /// No value of ours; says which part is wrong.
    #[error("the value is damaged: {0}")]
    Damaged(&'static str),
}

/// Most bytes of a value, written or read: a record's site and a long chain are
/// far below.
pub const MAX_VALUE: usize = 512 << 10;
/// The form of all values. Another field, key type or order of fields in
/// [`HostRecord`] or [`StoredCredential`] needs another number.
pub const FORM: u8 = 6;

type Result<T> = std::result::Result<T, FormError>;

/// Encodes all of an answer but `fresh_for`, which a catalog never gives.
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_found(found: &Found<SealedBytes>) -> Result<Vec<u8>> {
    encode(FOUND, found)
}

/// Decodes what [`write_found`] wrote: the record refers to exactly the
/// credentials.
///
/// # Errors
/// [`FormError`] for any other bytes.
pub fn read_found(bytes: &[u8]) -> Result<Found<SealedBytes>> {
    let found: Found<SealedBytes> = decode(FOUND, bytes)?;
    match belong(&found.record, &found.credentials) {
        true => Ok(found),
        false => Err(FormError::Damaged("its credentials are other ones")),
    }
}

/// Tells whether these are the credentials that the record refers to, each once.
#[must_use]
pub fn belong(record: &HostRecord, credentials: &[StoredCredential<SealedBytes>]) -> bool {
    record.references.iter().count() == credentials.len()
        && record.references.iter().all(|(key_type, id)| {
            credentials
                .iter()
                .any(|credential| credential.id == id && credential.key_type == key_type)
        })
}

/// Encodes a record with the ids of its credentials, and whether exact records
/// stand below it ([`Found::shadowed`]).
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_host(record: &HostRecord, shadowed: bool) -> Result<Vec<u8>> {
    encode(HOST, &(record, shadowed))
}

/// Decodes what [`write_host`] wrote.
///
/// # Errors
/// [`FormError`] for any other bytes.
pub fn read_host(bytes: &[u8]) -> Result<(HostRecord, bool)> {
    decode(HOST, bytes)
}

/// Encodes a credential with its sealed key.
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_credential(credential: &StoredCredential<SealedBytes>) -> Result<Vec<u8>> {
    encode(CREDENTIAL, credential)
}

/// Decodes what [`write_credential`] wrote.
///
/// # Errors
/// [`FormError`] for any other bytes.
pub fn read_credential(bytes: &[u8]) -> Result<StoredCredential<SealedBytes>> {
    decode(CREDENTIAL, bytes)
}

fn encode(kind: u8, value: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = postcard::to_extend(value, vec![kind, FORM]);
    let bytes = bytes.expect("a vector takes any bytes");
    match bytes.len() {
        0..=MAX_VALUE => Ok(bytes),
        _ => Err(FormError::TooLarge),
    }
}

/// Decodes without setting aside more than 1 MiB for a length that is not
/// there, which is serde's bound.
fn decode<'a, T: Deserialize<'a>>(kind: u8, bytes: &'a [u8]) -> Result<T> {
    match bytes {
        _ if bytes.len() > MAX_VALUE => Err(FormError::TooLarge),
        [first, FORM, rest @ ..] if *first == kind => match postcard::take_from_bytes(rest) {
            Ok((value, [])) => Ok(value),
            Ok(_) => Err(FormError::Damaged("something stands behind it")),
            Err(_) => Err(FormError::Damaged("it is cut, or not of its form")),
        },
        [first, form, ..] if *first == kind => Err(FormError::Version(*form)),
        _ => Err(FormError::Damaged("its kind")),
    }
}

const FOUND: u8 = b'f';
const HOST: u8 = b'h';
const CREDENTIAL: u8 = b'c';

#[cfg(test)]
mod tests;
