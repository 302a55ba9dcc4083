//! Credentials as stores hold them.

mod base64;
mod chain;
mod chain_form;
mod client_ca;
mod error;
pub(crate) mod key;
mod pem;
pub mod validate;
mod verify;

pub use client_ca::{ClientCa, authorities};
pub use error::{CredentialError, Date};
pub use pem::write as write_pem;
pub use validate::{Credential, Dates};

use std::fmt;
use std::str::FromStr;

use rustls_pki_types::CertificateDer;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::clock::Clock;
use crate::der;
use crate::origin::Origin;

/// A certificate chain and its private key, as a store takes and gives it.
/// `K` is the form of the key.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredCredential<K> {
    /// Name of the credential for its whole life, over all renewals.
    pub id: CredentialId,
    /// The number of the change that replaced it, or of the last change before
    /// it was created; together with the id it names exactly these bytes.
    /// A write ignores it.
    pub version: u64,
    /// Type of the key.
    pub key_type: KeyType,
    /// Leaf first, then each certificate's issuer, without the root.
    #[serde(with = "chain_form")]
    pub chain: Vec<CertificateDer<'static>>,
    /// The private key: inside, PKCS#8, SEC1 or PKCS#1 DER.
    pub key: K,
    /// Start of the leaf's validity, seconds since the Unix epoch.
    pub not_before: i64,
    /// End of the leaf's validity, seconds since the Unix epoch.
    pub not_after: i64,
    /// Source that brought the credential. The answer to a lookup may lack it.
    #[serde(skip)]
    pub origin: Option<Origin>,
}

impl<K> StoredCredential<K> {
    /// Returns the leaf's SubjectPublicKeyInfo, DER; none if the leaf is no
    /// certificate.
    #[must_use]
    pub fn spki(&self) -> Option<&[u8]> {
        der::spki(self.chain.first()?)
    }

    /// Converts the credential to one with its key in another form.
    #[must_use]
    pub fn with_key<L>(self, key: L) -> StoredCredential<L> {
        self.replace_key(key).0
    }

    /// Replaces the key. Returns the credential, and the key that it had.
    #[must_use]
    pub fn replace_key<L>(self, key: L) -> (StoredCredential<L>, K) {
        let replaced = StoredCredential {
            id: self.id,
            version: self.version,
            key_type: self.key_type,
            chain: self.chain,
            key,
            not_before: self.not_before,
            not_after: self.not_after,
            origin: self.origin,
        };
        (replaced, self.key)
    }
}

/// Takes certificates that stand one behind the other apart; none if the
/// bytes are cut or no certificates, or there are none.
#[must_use]
pub fn split_chain(bytes: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let parts = der::split(bytes)?;
    (!parts.is_empty()).then(|| parts.into_iter().map(|der| der.to_vec().into()).collect())
}

/// Identity of a credential: 63 bits, shown as `cert:` and 16 hexadecimal
/// digits, which no host name looks like.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "u64")]
pub struct CredentialId(u64);

impl CredentialId {
    /// Draws a new id: 42 bits of time, which keep what is stored together
    /// close together, and 21 random bits. Two ids may collide, rarely. A write
    /// that expects [`crate::store::Precondition::Absent`] says so, and the caller
    /// draws again.
    #[must_use]
    pub fn fresh(clock: &Clock) -> Self {
        let random = u64::from(u32::from_le_bytes(crate::random())) >> 11;
        let time = clock.now_ms().cast_unsigned() & ((1 << 42) - 1);
        Self(time << 21 | random)
    }

    /// Makes the id of a chain that no store holds: a part of its leaf's SHA-256.
    #[must_use]
    pub fn of_chain(chain: &[CertificateDer<'_>]) -> Self {
        let leaf = chain.first().map_or(&[][..], |leaf| leaf.as_ref());
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, leaf);
        let (number, _) = digest.as_ref().split_at(8);
        Self::from_u64(u64::from_be_bytes(number.try_into().expect("8 bytes")))
    }

    /// Makes an id of its number; the top bit is dropped.
    #[must_use]
    pub fn from_u64(number: u64) -> Self {
        Self(number & (u64::MAX >> 1))
    }

    /// Returns the number, below 2^63.
    #[must_use]
    pub fn as_u64(self) -> u64 {
        self.0
    }
}

impl From<u64> for CredentialId {
    fn from(number: u64) -> Self {
        Self::from_u64(number)
    }
}

impl fmt::Display for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cert:{:016x}", self.0)
    }
}

impl fmt::Debug for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for CredentialId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.strip_prefix("cert:")
            .filter(|digits| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .filter(|number| number >> 63 == 0)
            .map(Self)
            .ok_or_else(|| {
                format!("{text:?} is no credential id (cert: and 16 hexadecimal digits)")
            })
    }
}

/// The type of a credential's key, in the order of preference: what costs the
/// server least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum KeyType {
    /// P-256 or P-384.
    Ecdsa,
    /// Ed25519 (RFC 8032).
    Ed25519,
    /// 2048 to 4096 bits.
    Rsa,
}

impl KeyType {
    /// All, in the order of preference.
    pub const ALL: [Self; 3] = [Self::Ecdsa, Self::Ed25519, Self::Rsa];

    /// Returns the stored and shown form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ecdsa => "ecdsa",
            Self::Ed25519 => "ed25519",
            Self::Rsa => "rsa",
        }
    }

    /// Reads the stored form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|key_type| key_type.as_str() == text)
    }
}

/// AES-256-GCM ciphertext with its tag behind it (RFC 5116). A
/// [`Sealer`](crate::seal::Sealer) makes it; stores keep it as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedBytes {
    /// Id of the master key that sealed the bytes.
    pub key_id: u32,
    /// Drawn at random for each sealing.
    pub nonce: [u8; 12],
    /// Ciphertext and tag.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Bytes that are wiped when dropped and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes over; the caller keeps no copy.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Returns the bytes. A caller that copies them wipes the copy.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
