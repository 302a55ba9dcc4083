//! Codec of records and sealed credentials for the Redis cache and the disk
//! cache.
//!
//! A value is a byte for its kind, a byte for its form, and a struct of this
//! module as `postcard` writes it. A value of another form is an error, never a
//! guess: a cache takes it for a miss.

use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;

use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, Site, Tenant, TlsPolicy};
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
/// The form of all values. Another field, key type or order of fields needs
/// another number.
pub const FORM: u8 = 2;

type Result<T> = std::result::Result<T, FormError>;

/// Encodes all of an answer but `fresh_for`, which a catalog never gives.
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_found(found: &Found<SealedBytes>) -> Result<Vec<u8>> {
    let credentials = found.credentials.iter().map(CredentialForm::of).collect();
    let host = HostForm::of(&found.record, found.shadowed);
    encode(FOUND, &FoundForm { host, credentials })
}

/// Decodes what [`write_found`] wrote: the record refers to exactly the
/// credentials.
///
/// # Errors
/// [`FormError`] for any other bytes.
pub fn read_found(bytes: &[u8]) -> Result<Found<SealedBytes>> {
    let FoundForm { host, credentials } = decode(FOUND, bytes)?;
    let (record, shadowed) = host.record()?;
    let credentials = credentials.into_iter().map(CredentialForm::credential);
    let credentials = credentials.collect::<Result<Vec<_>>>()?;
    if !belong(&record, &credentials) {
        return Err(FormError::Damaged("its credentials are other ones"));
    }
    Ok(Found {
        record,
        credentials,
        shadowed,
        fresh_for: None,
    })
}

/// Whether these are the credentials that the record refers to, each once.
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
    encode(HOST, &HostForm::of(record, shadowed))
}

/// Decodes what [`write_host`] wrote.
///
/// # Errors
/// [`FormError`] for any other bytes.
pub fn read_host(bytes: &[u8]) -> Result<(HostRecord, bool)> {
    decode::<HostForm<'_>>(HOST, bytes)?.record()
}

/// Encodes a credential with its sealed key.
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_credential(credential: &StoredCredential<SealedBytes>) -> Result<Vec<u8>> {
    encode(CREDENTIAL, &CredentialForm::of(credential))
}

/// Decodes what [`write_credential`] wrote.
///
/// # Errors
/// [`FormError`] for any other bytes.
pub fn read_credential(bytes: &[u8]) -> Result<StoredCredential<SealedBytes>> {
    decode::<CredentialForm<'_>>(CREDENTIAL, bytes)?.credential()
}

#[derive(Serialize, Deserialize)]
struct FoundForm<'a> {
    #[serde(borrow)]
    host: HostForm<'a>,
    credentials: Vec<CredentialForm<'a>>,
}

#[derive(Serialize, Deserialize)]
struct HostForm<'a> {
    pattern: &'a str,
    tenant: &'a str,
    version: u64,
    /// In the order of [`KeyType::ALL`].
    references: [Option<u64>; KeyType::ALL.len()],
    /// The site's format and JSON.
    site: Option<(u32, &'a str)>,
    disabled: bool,
    tls13: bool,
    shadowed: bool,
}

impl<'a> HostForm<'a> {
    fn of(record: &'a HostRecord, shadowed: bool) -> Self {
        Self {
            pattern: record.pattern.as_str(),
            tenant: record.tenant.as_str(),
            version: record.version,
            references: KeyType::ALL
                .map(|key_type| record.references.of(key_type).map(CredentialId::as_u64)),
            site: record.site.as_ref().map(|site| (site.format, &*site.json)),
            disabled: record.disabled,
            tls13: record.tls == TlsPolicy::Tls13,
            shadowed,
        }
    }

    fn record(self) -> Result<(HostRecord, bool)> {
        let pattern = HostPattern::parse(self.pattern).ok();
        let pattern = pattern.filter(|pattern| pattern.as_str() == self.pattern);
        let mut record = HostRecord::new(pattern.ok_or(FormError::Damaged("its pattern"))?);
        let tenant = Tenant::parse(self.tenant);
        record.tenant = tenant.map_err(|_| FormError::Damaged("its tenant"))?;
        record.version = self.version;
        for (key_type, number) in KeyType::ALL.into_iter().zip(self.references) {
            let id = number.map(credential_id).transpose()?;
            record.references.set(key_type, id);
        }
        record.disabled = self.disabled;
        if self.tls13 {
            record.tls = TlsPolicy::Tls13;
        }
        record.site = self.site.map(|(format, json)| Site {
            format,
            json: json.into(),
        });
        Ok((record, self.shadowed))
    }
}

#[derive(Serialize, Deserialize)]
struct CredentialForm<'a> {
    /// Its place in [`KeyType::ALL`].
    key_type: u8,
    id: u64,
    version: u64,
    not_before: i64,
    not_after: i64,
    renew_at: Option<i64>,
    key_id: u32,
    nonce: [u8; 12],
    #[serde(borrow)]
    key: &'a Bytes,
    #[serde(borrow)]
    chain: Vec<&'a Bytes>,
}

impl<'a> CredentialForm<'a> {
    fn of(credential: &'a StoredCredential<SealedBytes>) -> Self {
        Self {
            key_type: credential.key_type as u8,
            id: credential.id.as_u64(),
            version: credential.version,
            not_before: credential.not_before,
            not_after: credential.not_after,
            renew_at: credential.renew_at,
            key_id: credential.key.key_id,
            nonce: credential.key.nonce,
            key: Bytes::new(&credential.key.bytes),
            chain: credential.chain.iter().map(|der| Bytes::new(der)).collect(),
        }
    }

    fn credential(self) -> Result<StoredCredential<SealedBytes>> {
        let key_type = KeyType::ALL.get(usize::from(self.key_type)).copied();
        let chain = self.chain.into_iter();
        Ok(StoredCredential {
            id: credential_id(self.id)?,
            version: self.version,
            key_type: key_type.ok_or(FormError::Damaged("its key type"))?,
            chain: chain
                .map(|der| CertificateDer::from(der.to_vec()))
                .collect(),
            key: SealedBytes {
                key_id: self.key_id,
                nonce: self.nonce,
                bytes: self.key.to_vec(),
            },
            not_before: self.not_before,
            not_after: self.not_after,
            renew_at: self.renew_at,
        })
    }
}

fn credential_id(number: u64) -> Result<CredentialId> {
    let id = CredentialId::from_u64(number);
    let is_id = id.as_u64() == number;
    is_id
        .then_some(id)
        .ok_or(FormError::Damaged("a credential's id"))
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
