//! Credentials as a load prepares them: keys parsed and matched with their leaf.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use rustls::SignatureScheme;
use rustls::sign::{CertifiedKey, SigningKey};
use rustls_pki_types::{CertificateDer, ServerName};

use crate::credential::{Credential, CredentialId, KeyType, StoredCredential, key};
use crate::der;
use crate::host::HostName;
use crate::record::HostRecord;
use crate::seal::OpenKey;
use ecdsa::EcdsaKey;
use rsa::RsaKey;

mod ecdsa;
pub(crate) mod intern;
mod rsa;

/// Host record with its credentials, each ready for a handshake.
#[derive(Debug)]
pub struct LoadedHost {
    /// The record as it was read.
    pub record: HostRecord,
    /// Its credentials in the order of preference, one per key type.
    pub credentials: Vec<Arc<LoadedCredential>>,
}

impl LoadedHost {
    /// Makes a host that no store holds, with pairs of its own. They are shared with
    /// no other host, and no change of a catalog reaches them.
    ///
    /// # Errors
    /// If there is no pair, two have keys of one type, or a key does not belong to
    /// its leaf.
    pub fn own(mut record: HostRecord, pairs: Vec<Credential>) -> Result<Self, String> {
        let mut credentials = Vec::with_capacity(pairs.len());
        for pair in pairs {
            let id = CredentialId::of_chain(pair.chain());
            let key_type = pair.key_type();
            if record.references.set(key_type, Some(id)).is_some() {
                let key_type = key_type.as_str();
                return Err(format!(
                    "two of its keys are {key_type}; one per type is served"
                ));
            }
            let own_chain = pair.chain().iter().map(|der| der.len()).sum();
            let stored = pair.into_stored(id);
            credentials.push(Arc::new(prepare(stored, own_chain, 0, Weak::new())?));
        }
        if credentials.is_empty() {
            return Err("there is no certificate".into());
        }
        credentials.sort_by_key(|credential| credential.key_type);
        Ok(Self {
            record,
            credentials,
        })
    }

    /// Returns the credential for a client that offers these schemes: the first
    /// in the order of preference that can sign one of them.
    #[must_use]
    pub fn choose(&self, offered: &[SignatureScheme]) -> Option<&Arc<LoadedCredential>> {
        self.credentials
            .iter()
            .find(|credential| credential.signs_one_of(offered))
    }

    /// Tells whether record and credentials are equal. Equal credentials are one copy
    /// in memory. Their versions are not compared: a restored log repeats numbers.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (own, others) = (self.credentials.iter(), other.credentials.iter());
        self.record == other.record && own.map(Arc::as_ptr).eq(others.map(Arc::as_ptr))
    }

    pub(crate) fn is_superseded(&self) -> bool {
        self.credentials
            .iter()
            .any(|credential| credential.superseded.load(Ordering::Relaxed))
    }
}

/// Credential in memory, shared by all cached hosts that refer to it.
pub struct LoadedCredential {
    /// Its id.
    pub id: CredentialId,
    /// Its version.
    pub version: u64,
    /// The type of its key.
    pub key_type: KeyType,
    /// Start of the leaf's validity, seconds since the Unix epoch.
    pub not_before: i64,
    /// End of the leaf's validity, seconds since the Unix epoch.
    pub not_after: i64,
    certified: Arc<CertifiedKey>,
    /// Bytes of the chain that are shared with no other credential, and of the key.
    own_bytes: usize,
    /// Epoch of the lookup in which the credential was read last.
    epoch: AtomicU64,
    /// Set once another version is known to be stored, and never cleared.
    /// Relaxed suffices: a lookup that misses the flag began before the change.
    superseded: AtomicBool,
    /// Interner that the credential is removed from when it is dropped.
    interner: Weak<intern::Interner>,
}

impl LoadedCredential {
    /// Returns chain and key in rustls's form.
    #[must_use]
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// Tells whether the leaf is valid for this name (RFC 9525, section 6).
    #[must_use]
    pub fn covers(&self, name: &HostName) -> bool {
        // The full parse below takes ten times as long as the walk to the names.
        if !name.as_str().contains('_') && der::names(self.leaf(), name.as_str()) {
            return true;
        }
        let leaf = webpki::EndEntityCert::try_from(self.leaf());
        // webpki takes no name with an underscore. No public CA gives a
        // certificate for one either.
        let name = ServerName::try_from(name.as_str());
        leaf.is_ok_and(|leaf| {
            name.is_ok_and(|name| leaf.verify_is_valid_for_subject_name(&name).is_ok())
        })
    }

    /// Tells whether the leaf is valid at that time, seconds since the Unix epoch.
    #[must_use]
    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Tells whether a signature takes several times as long as with other keys:
    /// RSA with more than 2048 bits. A signature of 4096 bits takes 1.5 ms.
    #[must_use]
    pub fn signs_slowly(&self) -> bool {
        self.key_type == KeyType::Rsa && self.rsa_bytes() > COMMON_RSA_BYTES
    }

    fn signs_one_of(&self, offered: &[SignatureScheme]) -> bool {
        self.certified.key.choose_scheme(offered).is_some()
    }

    /// Returns the bytes of memory that it takes, as the allocator counts.
    pub(crate) fn weight(&self) -> usize {
        PER_CREDENTIAL + self.certified.cert.len() * PER_CERTIFICATE + self.own_bytes
    }

    fn rsa_bytes(&self) -> usize {
        der::spki(self.leaf()).map_or(0, rsa_bytes)
    }

    /// Returns the leaf: an empty chain is not loaded.
    fn leaf(&self) -> &CertificateDer<'static> {
        &self.certified.cert[0]
    }
}

impl std::fmt::Debug for LoadedCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadedCredential({} version {})", self.id, self.version)
    }
}

/// Prepares a stored credential: parses the key by its type, matches it with
/// the leaf, reads the dates. `own_chain` bytes of the chain are not shared.
pub(crate) fn prepare(
    stored: StoredCredential<OpenKey>,
    own_chain: usize,
    epoch: u64,
    interner: Weak<intern::Interner>,
) -> Result<LoadedCredential, String> {
    let id = stored.id;
    let unusable = |what: &str| format!("credential {id}: {what}");
    let first = stored.chain.first();
    let first = first.ok_or_else(|| unusable("its chain is empty"))?;
    let leaf = der::leaf(first).ok_or_else(|| unusable("its leaf is no certificate"))?;
    let (key, key_bytes) = matching(&stored, leaf.spki).map_err(|what| unusable(&what))?;
    Ok(LoadedCredential {
        id,
        version: stored.version,
        key_type: stored.key_type,
        not_before: leaf.not_before,
        not_after: leaf.not_after,
        certified: Arc::new(CertifiedKey::new(stored.chain, key)),
        own_bytes: own_chain + key_bytes,
        epoch: AtomicU64::new(epoch),
        superseded: AtomicBool::new(false),
        interner,
    })
}

/// Parses the private key and checks that its public half is the leaf's. Returns the
/// bytes of memory of the key, too.
fn matching(
    stored: &StoredCredential<OpenKey>,
    spki: &[u8],
) -> Result<(Arc<dyn SigningKey>, usize), String> {
    let secret = stored.key.secret().expose();
    let is_proved = stored.key.is_proved();
    let unchecked = is_proved.then(|| unchecked(secret, stored.key_type, spki));
    if let Some(key) = unchecked.flatten() {
        return Ok(key);
    }
    let key = key::parse(secret, stored.key_type)?;
    if key.public_key().is_none_or(|own| own.as_ref() != spki) {
        return Err("its private key does not belong to its leaf certificate".into());
    }
    let bytes = match stored.key_type {
        KeyType::Ecdsa => ECDSA_KEY,
        KeyType::Ed25519 => ED25519_KEY,
        KeyType::Rsa => rsa_key(spki),
    };
    Ok((key, bytes))
}

/// Reads a proved key whose public half is written as in the leaf. None for all others:
/// the full parse decides on them. A sealed ECDSA key may hold its point compressed.
fn unchecked(
    secret: &[u8],
    key_type: KeyType,
    spki: &[u8],
) -> Option<(Arc<dyn SigningKey>, usize)> {
    match key_type {
        KeyType::Ecdsa => {
            let parts = key::elliptic(secret).filter(|parts| parts.is_half_of(spki))?;
            let key = EcdsaKey::from_checked(parts.curve, parts.private)?;
            Some((Arc::new(key), PROVED_ECDSA_KEY))
        }
        KeyType::Rsa => {
            let numbers = der::rsa_private(secret)?;
            der::rsa_public(spki).filter(|own| *own == numbers[..2])?;
            Some((Arc::new(RsaKey::from_checked(numbers)?), rsa_key(spki)))
        }
        KeyType::Ed25519 => None,
    }
}

/// Returns the memory of an RSA key: aws-lc's grows with the modulus.
fn rsa_key(spki: &[u8]) -> usize {
    RSA_KEY + RSA_KEY_PER_BYTE * rsa_bytes(spki)
}

/// Returns the length of the modulus; 0 for another type of key.
fn rsa_bytes(spki: &[u8]) -> usize {
    der::rsa_public(spki).map_or(0, |[modulus, _]| modulus.len())
}

/// Length of the modulus with 2048 bits, the most common one.
const COMMON_RSA_BYTES: usize = 256;
// Measured by `tests/weight.rs` with the allocator's own statistics.
const PER_CREDENTIAL: usize = 210;
const PER_CERTIFICATE: usize = 24;
const ECDSA_KEY: usize = 590;
const PROVED_ECDSA_KEY: usize = 230;
const ED25519_KEY: usize = 170;
const RSA_KEY: usize = 500;
const RSA_KEY_PER_BYTE: usize = 21;
