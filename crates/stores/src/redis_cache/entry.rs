//! Entries of the Redis cache: one answer as subjects with their values.

use redis::Value;

use crate::stored::{self, FormError};
use sekisho_certs::credential::{CredentialId, SealedBytes};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::References;
use sekisho_certs::store::{Change, Found, Subject};

/// An answer as it is stored: subjects with their values.
pub(crate) struct Entry {
    /// The host first.
    pub(super) values: Vec<(String, Vec<u8>)>,
    /// The highest version in it.
    pub(super) newest: u64,
}

impl Entry {
    /// # Errors
    /// [`FormError`]: a secret in the clear, or too large.
    pub(crate) fn of(found: &Found<SealedBytes>) -> Result<Self, FormError> {
        if !stored::belong(&found.record, &found.credentials) {
            return Err(FormError::Damaged("its credentials are other ones"));
        }
        let mut host = head(&found.record.references);
        host.extend(stored::write_host(&found.record, false)?);
        let mut values = vec![(host_subject(&found.record.pattern), host)];
        let mut newest = found.record.version;
        for credential in &found.credentials {
            let bytes = stored::write_credential(credential)?;
            values.push((credential_subject(credential.id), bytes));
            newest = newest.max(credential.version);
        }
        let bytes: usize = values.iter().map(|(_, bytes)| bytes.len()).sum();
        match bytes <= MAX_ENTRY {
            true => Ok(Self { values, newest }),
            false => Err(FormError::TooLarge),
        }
    }
}

/// Writes what the scripts read of a host: how many credentials, and which.
fn head(references: &References) -> Vec<u8> {
    let ids: Vec<_> = references.iter().map(|(_, id)| hex(id)).collect();
    format!("{}{}", ids.len(), ids.concat()).into_bytes()
}

/// The answer to a name out of what the script gave: the host, then its
/// credentials.
pub(super) fn read(name: &HostName, values: &[Value]) -> Result<Found<SealedBytes>, FormError> {
    let mut values = values.iter().map(|value| match value {
        Value::BulkString(bytes) => Ok(bytes.as_slice()),
        // The value was too long, and was cut off as it arrived.
        Value::ServerError(_) => Err(FormError::TooLarge),
        _ => Err(FormError::Damaged("no text")),
    });
    let host = values.next().ok_or(FormError::Damaged("no host"))??;
    let head = 1 + 16 * values.len();
    let host = host.get(head..).ok_or(FormError::Damaged("it is cut"))?;
    let (record, shadowed) = stored::read_host(host)?;
    let credentials = values
        .map(|value| stored::read_credential(value?))
        .collect::<Result<Vec<_>, _>>()?;
    let answers = record.pattern.covers(name) && !shadowed;
    if !answers || !stored::belong(&record, &credentials) {
        return Err(FormError::Damaged("it is another host's"));
    }
    Ok(Found {
        record,
        credentials,
        shadowed,
        fresh_for: None,
    })
}

/// Lists what these changes touch, each with the number of its last change: a host
/// with the wildcard above it, which it may shadow.
pub(super) fn touched(changes: &[Change]) -> Vec<(String, u64)> {
    let mut touched = std::collections::BTreeMap::new();
    for change in changes {
        match &change.subject {
            Subject::Host(pattern) => {
                if let Some(above) = pattern.exact().and_then(|name| name.wildcard()) {
                    touched.insert(host_subject(&above), change.number);
                }
                touched.insert(host_subject(pattern), change.number);
            }
            Subject::Credential(id) => {
                touched.insert(credential_subject(*id), change.number);
            }
            Subject::Document(_) => {}
        }
    }
    touched.into_iter().collect()
}

fn host_subject(pattern: &HostPattern) -> String {
    format!("h:{pattern}")
}

fn credential_subject(id: CredentialId) -> String {
    format!("c:{}", hex(id))
}

fn hex(id: CredentialId) -> String {
    format!("{:016x}", id.as_u64())
}

/// Three long chains, their keys and a site are a tenth of it.
const MAX_ENTRY: usize = 512 << 10;
