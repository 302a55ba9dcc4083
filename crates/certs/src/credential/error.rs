//! Why a credential is refused, in words for an operator.

use std::fmt;

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Why a credential was refused. Never shows a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialError {
    /// The PEM text is broken.
    #[error("line {line}: {what}")]
    Pem {
        /// Counted from 1.
        line: usize,
        /// The problem.
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
        "certificate {number} is broken: {why}; a PKCS#7 file must be converted to PEM first: openssl pkcs7 -print_certs"
    )]
    BrokenCertificate {
        /// Counted from 1.
        number: usize,
        /// The problem.
        why: &'static str,
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
        "the chain is incomplete: {leaf} was issued by {issuer}, whose certificate is missing; add it behind the leaf, or name a private authority with --ca FILE"
    )]
    Incomplete {
        /// The leaf's subject.
        leaf: String,
        /// Whose certificate is missing.
        issuer: String,
    },
    /// A certificate of the issuer's name that did not sign the leaf.
    #[error(
        "the chain is incomplete: {leaf} was issued by {issuer}, and the certificate of that name {why}; put the one that signed the leaf behind it"
    )]
    WrongIssuer {
        /// The leaf's subject.
        leaf: String,
        /// Its issuer's name.
        issuer: String,
        /// Fault of the certificate that has this name.
        why: &'static str,
    },
    /// A certificate of the chain that clients refuse.
    #[error("clients refuse {subject}: {why}")]
    Refused {
        /// The certificate's subject.
        subject: String,
        /// Problem that clients find.
        why: String,
    },
    /// A client CA's private key, which stays with the CA.
    #[error("holds a private key, which verifies nothing; leave the certificates alone in it")]
    KeyOfAuthority,
    /// A certificate in a client CA that issues none.
    #[error(
        "{0} is neither an authority's (CA:TRUE) nor self-signed; name the CA that issued the certificates"
    )]
    NoAuthority(String),
    /// A file of another format, with the command that converts it.
    #[error("this is a PKCS#12 file; convert it: openssl pkcs12 -in FILE -nodes -out FILE.pem")]
    Pkcs12,
    /// Over a bound in bytes.
    #[error("{what} has {bytes} bytes, at most {most} are taken")]
    TooLarge {
        /// Part that is too large.
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
    #[error("the certificate expired on {0}; renew it, or take it with --allow-expired")]
    Expired(Date),
    /// The leaf's time is still to come.
    #[error(
        "the certificate is not valid before {0}; look at this machine's clock, or take it with --allow-expired"
    )]
    NotYetValid(Date),
}

impl CredentialError {
    /// Refuses a part that is over its bound in bytes.
    pub(super) fn check_size(what: &'static str, bytes: usize, most: usize) -> Result<(), Self> {
        match bytes > most {
            true => Err(Self::TooLarge { what, bytes, most }),
            false => Ok(()),
        }
    }

    /// Refuses more certificates than `most`.
    pub(super) fn check_count(certificates: usize, most: usize) -> Result<(), Self> {
        match certificates > most {
            true => Err(Self::TooMany { certificates, most }),
            false => Ok(()),
        }
    }

    /// Returns what errors of a kind have in common, for lists of them.
    #[must_use]
    pub fn group(&self) -> &'static str {
        match self {
            Self::Pem { .. } => "the PEM text is broken",
            Self::NoCertificate => "there is no certificate",
            Self::NoKey | Self::SeveralKeys(_) => "there is not one private key",
            Self::EncryptedKey => "the private key is encrypted",
            Self::UnsupportedKey(_) | Self::RsaBits(_) => "the private key is of another type",
            Self::BrokenKey => "the private key is broken",
            Self::BrokenCertificate { .. } => "a certificate is broken",
            Self::KeyMismatch { .. } => "the key belongs to another certificate",
            Self::TwoOfOneKey { .. } | Self::Unrelated(_) => "there is more than one pair",
            Self::Incomplete { .. } | Self::WrongIssuer { .. } => "the chain is incomplete",
            Self::KeyOfAuthority => "there is a private key",
            Self::NoAuthority(_) => "a certificate is no authority's",
            Self::Refused { .. } => "clients refuse the certificate",
            Self::Pkcs12 => "the file is PKCS#12",
            Self::TooLarge { .. } | Self::TooMany { .. } => "the chain is too large",
            Self::Expired(_) => "the certificate expired",
            Self::NotYetValid(_) => "the certificate is not valid yet",
        }
    }
}

/// Seconds since the Unix epoch, shown in UTC as RFC 3339 writes them. A number beyond the
/// years that it can write stays one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date(pub i64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = OffsetDateTime::from_unix_timestamp(self.0).ok();
        match time.and_then(|time| time.format(&Rfc3339).ok()) {
            Some(text) => f.write_str(&text),
            None => self.0.fmt(f),
        }
    }
}
