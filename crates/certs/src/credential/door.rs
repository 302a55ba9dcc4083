//! The door: what every credential passes before it is stored.

use std::fmt;

use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;

use super::chain::{self, arrange};
use super::key::{self, PrivateKey};
use super::pem::{self, Contents, Wanted};
use super::{CredentialId, KeyType, Protected, Secret, StoredCredential};
use crate::der;
use crate::host::HostPattern;

/// A certificate chain and its private key that belong together.
#[derive(Clone, Debug)]
pub struct Credential {
    key_type: KeyType,
    chain: Vec<CertificateDer<'static>>,
    key: Secret,
    names: Vec<HostPattern>,
    not_before: i64,
    not_after: i64,
    notes: Vec<String>,
}

impl Credential {
    /// Checks a chain and a key, each PEM or DER; what else stands in the
    /// files is passed over. In order: forms, key, leaf, chain, sizes, dates.
    /// The chain's order is repaired.
    ///
    /// # Errors
    /// The first check that failed, in words for an operator.
    pub fn parse(chain: &[u8], key: &[u8], dates: Dates) -> Result<Self, CredentialError> {
        let certificates = pem::read(chain, Wanted::Certificates)?.certificates;
        let keys = pem::read(key, Wanted::Key)?.keys;
        Self::check(Contents { certificates, keys }, dates)
    }

    /// The same with both in one PEM file, in any order.
    ///
    /// # Errors
    /// As [`Credential::parse`].
    pub fn parse_bundle(bundle: &[u8], dates: Dates) -> Result<Self, CredentialError> {
        Self::check(pem::read(bundle, Wanted::Certificates)?, dates)
    }

    /// The same for a pair that others keep, at each load: dates do not count,
    /// and a chain that begins with the leaf is taken as it stands if the key
    /// names the leaf's public key. The full parse of a load checks the rest.
    /// Names and notes are those of the slow way only.
    pub fn parse_stored(chain: &[u8], key: &[u8]) -> Result<Self, CredentialError> {
        let certificates = pem::read(chain, Wanted::Certificates)?.certificates;
        let keys = pem::read(key, Wanted::Key)?.keys;
        Self::stored(Contents { certificates, keys })
    }

    /// The same with both in one PEM text, in any order.
    pub fn parse_stored_bundle(bundle: &[u8]) -> Result<Self, CredentialError> {
        Self::stored(pem::read(bundle, Wanted::Certificates)?)
    }

    fn stored(contents: Contents) -> Result<Self, CredentialError> {
        let Contents { certificates, keys } = contents;
        let leaf = certificates.first().and_then(|leaf| der::leaf(leaf));
        let (Some(leaf), [key]) = (leaf, &keys[..]) else {
            return Self::check(Contents { certificates, keys }, Dates::Any);
        };
        let (key_type, pkcs8) = key::normal(key)?;
        if key::claims(pkcs8.expose(), leaf.spki) != Some(true) {
            return Self::check(Contents { certificates, keys }, Dates::Any);
        }
        let (not_before, not_after) = (leaf.not_before, leaf.not_after);
        sizes(&certificates)?;
        Ok(Self {
            key_type,
            chain: certificates,
            key: pkcs8,
            names: Vec::new(),
            not_before,
            not_after,
            notes: Vec::new(),
        })
    }

    fn check(contents: Contents, dates: Dates) -> Result<Self, CredentialError> {
        if contents.certificates.is_empty() {
            return Err(CredentialError::NoCertificate);
        }
        let key = match &contents.keys[..] {
            [] => return Err(CredentialError::NoKey),
            [key] => PrivateKey::parse(key)?,
            keys => return Err(CredentialError::SeveralKeys(keys.len())),
        };
        let (chain, mut notes) = arrange(contents.certificates, &key.public)?;
        sizes(&chain)?;
        let (_, leaf) = X509Certificate::from_der(&chain[0]).expect("arranging has parsed it");
        let names = names(&leaf, &mut notes);
        let header = der::leaf(&chain[0]).expect("arranging has read it");
        let (not_before, not_after) = (header.not_before, header.not_after);
        dates.check(not_before, not_after)?;
        Ok(Self {
            key_type: key.key_type,
            key: key.pkcs8,
            names,
            not_before,
            not_after,
            notes,
            chain,
        })
    }

    /// The type of the key.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Leaf first, then each certificate's issuer, without the root.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// The DNS names of the leaf, without those that no host can have.
    #[must_use]
    pub fn names(&self) -> &[HostPattern] {
        &self.names
    }

    /// End of the leaf's validity, seconds since the Unix epoch.
    #[must_use]
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// What was repaired or left out, for the operator.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// As a store takes it, with the key in the clear, as PKCS#8.
    #[must_use]
    pub fn into_stored(self, id: CredentialId) -> StoredCredential {
        StoredCredential {
            id,
            version: 0,
            key_type: self.key_type,
            chain: self.chain,
            key: Protected::Plain(self.key),
            not_before: self.not_before,
            not_after: self.not_after,
            renew_at: None,
        }
    }
}

/// Whether the leaf must be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dates {
    /// At this time, seconds since the Unix epoch.
    ValidAt(i64),
    /// Any dates pass: what is expired is served on.
    Any,
}

impl Dates {
    fn check(self, not_before: i64, not_after: i64) -> Result<(), CredentialError> {
        match self {
            Self::ValidAt(now) if now > not_after => Err(CredentialError::Expired(Date(not_after))),
            Self::ValidAt(now) if now < not_before => {
                Err(CredentialError::NotYetValid(Date(not_before)))
            }
            Self::ValidAt(_) | Self::Any => Ok(()),
        }
    }
}

/// Why a credential was refused at the door. Never shows a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The PEM text is broken.
    #[error("line {line}: {what}")]
    Pem {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// Nothing that is a certificate.
    #[error("holds no certificate (BEGIN CERTIFICATE)")]
    NoCertificate,
    /// Nothing that is a private key.
    #[error("holds no private key (BEGIN PRIVATE KEY)")]
    NoKey,
    /// More than one private key.
    #[error("holds {0} private keys; one pair per file")]
    SeveralKeys(usize),
    /// The key needs a password.
    #[error(
        "the private key is encrypted with a password; decrypt it first: openssl pkey -in KEY -out PLAIN"
    )]
    EncryptedKey,
    /// A type of key that is not served.
    #[error("the private key is {0}; ECDSA P-256 and P-384, Ed25519 and RSA are served")]
    UnsupportedKey(&'static str),
    /// An RSA key outside of what is served.
    #[error("the RSA key has {0} bits; 2048 to 4096 are served")]
    RsaBits(usize),
    /// The key can't be parsed.
    #[error(
        "the private key is broken: neither PKCS#8 nor SEC1 nor PKCS#1, or its parts do not fit each other"
    )]
    BrokenKey,
    /// A certificate can't be parsed.
    #[error(
        "certificate {number} is broken: {why}; PKCS#12 and PKCS#7 files must be converted to PEM first"
    )]
    BrokenCertificate {
        /// Counted from 1.
        number: usize,
        /// What the parser says.
        why: String,
    },
    /// No certificate has the key's public half.
    #[error(
        "the private key does not belong to any of the {certificates} certificates (the first is {first})"
    )]
    KeyMismatch {
        /// How many there are.
        certificates: usize,
        /// The first one's subject.
        first: String,
    },
    /// Two certificates of one key: which one is meant?
    #[error("two certificates have this private key, {one} and {other}; leave one of them out")]
    TwoOfOneKey {
        /// The first.
        one: String,
        /// The second.
        other: String,
    },
    /// Another leaf.
    #[error("holds a certificate that is no part of the chain, {0}; one pair per file")]
    Unrelated(String),
    /// The leaf's issuer is missing.
    #[error(
        "the chain is incomplete: {leaf} was issued by {issuer}, whose certificate is missing; add it behind the leaf"
    )]
    Incomplete {
        /// The leaf's subject.
        leaf: String,
        /// Whose certificate is missing.
        issuer: String,
    },
    /// Over a bound in bytes.
    #[error("{what} has {bytes} bytes, at most {most} are taken")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        bytes: usize,
        /// How large it may be.
        most: usize,
    },
    /// Over a bound in number.
    #[error("there are {certificates} certificates, at most {most} are taken")]
    TooMany {
        /// How many there are.
        certificates: usize,
        /// How many there may be.
        most: usize,
    },
    /// The leaf's time is over.
    #[error("the certificate expired on {0}; renew it, or allow expired ones")]
    Expired(Date),
    /// The leaf's time is still to come.
    #[error("the certificate is not valid before {0}; look at this machine's clock")]
    NotYetValid(Date),
}

/// Seconds since the Unix epoch, shown as people write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(pub i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match ASN1Time::from_timestamp(self.0) {
            Ok(time) => fmt::Display::fmt(&time, f),
            Err(_) => write!(f, "{} s since 1970", self.0),
        }
    }
}

fn sizes(chain: &[CertificateDer<'static>]) -> Result<(), CredentialError> {
    if chain.len() > MAX_CHAIN {
        return Err(CredentialError::TooMany {
            certificates: chain.len(),
            most: MAX_CHAIN,
        });
    }
    let bytes = chain.iter().map(|der| der.len()).sum();
    if bytes > MAX_CHAIN_BYTES {
        return Err(CredentialError::TooLarge {
            what: "the chain",
            bytes,
            most: MAX_CHAIN_BYTES,
        });
    }
    Ok(())
}

/// Only the subject's alternative names count (RFC 9525, section 2).
fn names(leaf: &X509Certificate<'_>, notes: &mut Vec<String>) -> Vec<HostPattern> {
    let mut names = Vec::new();
    let alternatives = leaf.subject_alternative_name().ok().flatten();
    let alternatives = alternatives.map_or(&[][..], |found| &found.value.general_names);
    for name in alternatives {
        let GeneralName::DNSName(text) = name else {
            continue;
        };
        match HostPattern::parse(text) {
            Ok(pattern) if names.contains(&pattern) => {}
            Ok(pattern) => names.push(pattern),
            Err(why) => notes.push(format!("left out the name {text:?}: {why}")),
        }
    }
    if names.is_empty() {
        let leaf = chain::shown(leaf);
        notes.push(format!("{leaf} has no DNS name that a host can have"));
    }
    names
}

/// Clients refuse longer chains.
const MAX_CHAIN: usize = 10;
/// Clients refuse longer certificate messages, and each handshake sends it.
const MAX_CHAIN_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests;
