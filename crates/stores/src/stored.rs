//! Records and sealed credentials as bytes, for levels beside a catalog: what
//! a catalog found, kept where it is only a copy.
//!
//! ```text
//! host        'h' 1  flags  pattern  tenant  version  references  site
//! credential  'c' 1  flags  id  version  not_before  not_after  renew_at
//!                    key_id  nonce  key  certificates
//! found       'f' 1  host  credentials, each with its length before it
//! ```
//!
//! Numbers are big-endian, texts and bytes have their length before them. The
//! second byte is the form's version: another one is an error, never a guess,
//! and whoever reads it takes the value for one that is not there.

use rustls_pki_types::CertificateDer;

use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, References, Site, Tenant, TlsPolicy};
use sekisho_certs::store::{Found, Source};

/// Why a value has no bytes, or bytes no value. Shows neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// Over [`MAX_VALUE`], or a part is longer than its length can say.
    #[error("the value is larger than what is kept")]
    TooLarge,
    /// Written by another version of the program.
    #[error("the value has form {0}, which this version does not read")]
    Version(u8),
    /// No value of ours; says which part is wrong.
    #[error("the value is damaged: {0}")]
    Damaged(&'static str),
}

/// A value's most bytes, and no value is read from more: a record's site and a
/// long chain are far below.
pub const MAX_VALUE: usize = 512 << 10;

type Result<T> = std::result::Result<T, FormError>;

/// All of it but `fresh_for`, of which what a catalog found has none, and
/// `source`.
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_found(found: &Found<SealedBytes>) -> Result<Vec<u8>> {
    let mut out = Out::new(FOUND);
    out.long(&write_host(&found.record, found.shadowed)?)?;
    out.u8(u8::try_from(found.credentials.len()).map_err(|_| FormError::TooLarge)?);
    for credential in &found.credentials {
        out.long(&write_credential(credential)?)?;
    }
    out.end()
}

/// What [`write_found`] wrote: the record refers to exactly the credentials.
///
/// # Errors
/// [`FormError`] for anything else, whatever the bytes are.
pub fn read_found(bytes: &[u8]) -> Result<Found<SealedBytes>> {
    let mut rest = In::new(bytes, FOUND)?;
    let (record, shadowed) = read_host(rest.long()?)?;
    let credentials = (0..rest.u8()?)
        .map(|_| read_credential(rest.long()?))
        .collect::<Result<Vec<_>>>()?;
    rest.end()?;
    if !belong(&record, &credentials) {
        return Err(FormError::Damaged("its credentials are other ones"));
    }
    Ok(Found {
        record,
        credentials,
        shadowed,
        fresh_for: None,
        source: Source::Store,
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

/// A record with the ids of its credentials, and whether exact records stand
/// below it ([`Found::shadowed`]).
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_host(record: &HostRecord, shadowed: bool) -> Result<Vec<u8>> {
    let mut out = Out::new(HOST);
    let mut flags = 0;
    for (set, flag) in [
        (record.disabled, DISABLED),
        (shadowed, SHADOWED),
        (record.site.is_some(), SITE),
        (record.tls == TlsPolicy::Tls13, TLS13),
    ] {
        flags |= if set { flag } else { 0 };
    }
    out.u8(flags);
    out.short(record.pattern.as_str().as_bytes())?;
    out.short(record.tenant.as_str().as_bytes())?;
    out.u64(record.version);
    for key_type in KeyType::ALL {
        let id = record.references.of(key_type);
        out.u64(id.map_or(NONE, CredentialId::as_u64));
    }
    if let Some(site) = &record.site {
        out.u32(site.format);
        out.long(site.json.as_bytes())?;
    }
    out.end()
}

/// What [`write_host`] wrote.
///
/// # Errors
/// [`FormError`] for anything else, whatever the bytes are.
pub fn read_host(bytes: &[u8]) -> Result<(HostRecord, bool)> {
    let mut rest = In::new(bytes, HOST)?;
    let flags = rest.u8()?;
    if flags & !(DISABLED | SHADOWED | SITE | TLS13) != 0 {
        return Err(FormError::Damaged("its flags"));
    }
    let text = rest.short_text()?;
    let mut record = HostPattern::parse(text)
        .ok()
        .filter(|pattern| pattern.as_str() == text)
        .map(HostRecord::new)
        .ok_or(FormError::Damaged("its pattern"))?;
    let tenant = Tenant::parse(rest.short_text()?);
    record.tenant = tenant.map_err(|_| FormError::Damaged("its tenant"))?;
    record.version = rest.u64()?;
    record.references = references(&mut rest)?;
    record.disabled = flags & DISABLED != 0;
    if flags & TLS13 != 0 {
        record.tls = TlsPolicy::Tls13;
    }
    if flags & SITE != 0 {
        record.site = Some(Site {
            format: rest.u32()?,
            json: text_of(rest.long()?)?.into(),
        });
    }
    rest.end()?;
    Ok((record, flags & SHADOWED != 0))
}

fn references(rest: &mut In<'_>) -> Result<References> {
    let mut references = References::default();
    for key_type in KeyType::ALL {
        let number = rest.u64()?;
        if number != NONE {
            references.set(key_type, Some(id(number)?));
        }
    }
    Ok(references)
}

/// A credential with its sealed key.
///
/// # Errors
/// [`FormError::TooLarge`].
pub fn write_credential(credential: &StoredCredential<SealedBytes>) -> Result<Vec<u8>> {
    let key = &credential.key;
    let mut out = Out::new(CREDENTIAL);
    // Its place in the order, in which types are only added behind.
    out.u8(credential.key_type as u8);
    out.u64(credential.id.as_u64());
    out.u64(credential.version);
    out.u64(credential.not_before.cast_unsigned());
    out.u64(credential.not_after.cast_unsigned());
    out.u8(u8::from(credential.renew_at.is_some()));
    out.u64(credential.renew_at.unwrap_or_default().cast_unsigned());
    out.u32(key.key_id);
    out.bytes.extend_from_slice(&key.nonce);
    out.long(&key.bytes)?;
    out.u8(u8::try_from(credential.chain.len()).map_err(|_| FormError::TooLarge)?);
    for certificate in &credential.chain {
        out.long(certificate)?;
    }
    out.end()
}

/// What [`write_credential`] wrote.
///
/// # Errors
/// [`FormError`] for anything else, whatever the bytes are.
pub fn read_credential(bytes: &[u8]) -> Result<StoredCredential<SealedBytes>> {
    let mut rest = In::new(bytes, CREDENTIAL)?;
    let key_type = usize::from(rest.u8()?);
    let key_type = *KeyType::ALL
        .get(key_type)
        .ok_or(FormError::Damaged("its key type"))?;
    let id = id(rest.u64()?)?;
    let version = rest.u64()?;
    let not_before = rest.u64()?.cast_signed();
    let not_after = rest.u64()?.cast_signed();
    let renews = rest.u8()?;
    let renew_at = rest.u64()?.cast_signed();
    let key = SealedBytes {
        key_id: rest.u32()?,
        nonce: rest.array()?,
        bytes: rest.long()?.to_vec(),
    };
    let chain = (0..rest.u8()?)
        .map(|_| Ok(CertificateDer::from(rest.long()?.to_vec())))
        .collect::<Result<Vec<_>>>()?;
    rest.end()?;
    if renews > 1 {
        return Err(FormError::Damaged("its renewal"));
    }
    Ok(StoredCredential {
        id,
        version,
        key_type,
        chain,
        key,
        not_before,
        not_after,
        renew_at: (renews == 1).then_some(renew_at),
    })
}

fn id(number: u64) -> Result<CredentialId> {
    let id = CredentialId::from_u64(number);
    (id.as_u64() == number)
        .then_some(id)
        .ok_or(FormError::Damaged("a credential's id"))
}

fn text_of(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| FormError::Damaged("a text"))
}

/// A value in the making.
struct Out {
    bytes: Vec<u8>,
}

impl Out {
    fn new(kind: u8) -> Self {
        Self {
            bytes: vec![kind, FORM],
        }
    }

    fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    fn u32(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    fn u64(&mut self, number: u64) {
        self.bytes.extend_from_slice(&number.to_be_bytes());
    }

    /// At most 255 bytes.
    fn short(&mut self, bytes: &[u8]) -> Result<()> {
        self.u8(u8::try_from(bytes.len()).map_err(|_| FormError::TooLarge)?);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn long(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > MAX_VALUE {
            return Err(FormError::TooLarge);
        }
        self.u32(u32::try_from(bytes.len()).map_err(|_| FormError::TooLarge)?);
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn end(self) -> Result<Vec<u8>> {
        match self.bytes.len() {
            0..=MAX_VALUE => Ok(self.bytes),
            _ => Err(FormError::TooLarge),
        }
    }
}

/// What is left of a value. Nothing is set aside for a length before so many
/// bytes were seen.
struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn new(bytes: &'a [u8], kind: u8) -> Result<Self> {
        match bytes {
            _ if bytes.len() > MAX_VALUE => Err(FormError::TooLarge),
            [first, FORM, rest @ ..] if *first == kind => Ok(Self(rest)),
            [first, form, ..] if *first == kind => Err(FormError::Version(*form)),
            _ => Err(FormError::Damaged("its kind")),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Result<u8> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    fn short_text(&mut self) -> Result<&'a str> {
        let length = self.u8()?;
        text_of(self.take(length.into())?)
    }

    fn long(&mut self) -> Result<&'a [u8]> {
        let length = self.u32()?;
        self.take(usize::try_from(length).map_err(|_| CUT)?)
    }

    fn end(self) -> Result<()> {
        match self.0 {
            [] => Ok(()),
            _ => Err(FormError::Damaged("something stands behind it")),
        }
    }
}

const CUT: FormError = FormError::Damaged("it is cut");
const FOUND: u8 = b'f';
const HOST: u8 = b'h';
const CREDENTIAL: u8 = b'c';
const FORM: u8 = 1;
/// In the place of an id: ids stay below 2^63.
const NONE: u64 = u64::MAX;
const DISABLED: u8 = 1;
const SHADOWED: u8 = 2;
const SITE: u8 = 4;
const TLS13: u8 = 8;

#[cfg(test)]
mod tests;
