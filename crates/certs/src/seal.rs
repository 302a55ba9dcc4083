//! Sealing: secrets at rest under a master key, AES-256-GCM (RFC 5116).
//!
//! Each sealing is bound to its place: a key to its catalog, credential and
//! public key, a document to its catalog, kind and key, an order to its catalog
//! and lineage. Moved elsewhere, it
//! does not open.

mod batch;
mod file;
mod keys;
mod open;
mod sealer;
mod source;
mod text;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{SHA256, digest};
use zeroize::Zeroizing;

pub use self::batch::Batch;
pub use self::keys::Keys;
pub use self::open::OpenKey;
pub use self::sealer::{CHECK, Resealed, SealedSecret, Sealer, Walk};
pub use self::source::KeySource;

use crate::credential::{CredentialId, SealedBytes, Secret, StoredCredential};
use crate::lineage::LineageName;
use crate::store::{CatalogId, DocumentId};

/// Master key, expanded once for all uses.
pub struct MasterKey {
    id: u32,
    key: RandomizedNonceKey,
}

impl MasterKey {
    /// Makes a key of its 32 bytes; the caller wipes them.
    ///
    /// # Panics
    /// Never: AES-256 takes any 32 bytes.
    #[must_use]
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Self {
        Self {
            id: key_id(bytes),
            key: RandomizedNonceKey::new(&AES_256_GCM, bytes).expect("AES-256 takes any 32 bytes"),
        }
    }

    /// Returns the id: the head of a digest over the key, which no two keys
    /// share by mistake.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    fn seal(&self, secret: &Secret, bound: &Bound) -> SealedBytes {
        // Room for the tag from the start: growing would leave a plain copy.
        let mut bytes = Vec::with_capacity(secret.expose().len() + AES_256_GCM.tag_len());
        bytes.extend_from_slice(secret.expose());
        // 96 random bits: safe for 2^32 sealings under one key (NIST SP
        // 800-38D, section 8.3).
        let nonce = self
            .key
            .seal_in_place_append_tag(Aad::from(&bound.0), &mut bytes);
        let nonce = nonce.expect("there are random bytes, and secrets are far below 64 GiB");
        SealedBytes {
            key_id: self.id,
            nonce: *nonce.as_ref(),
            bytes,
        }
    }

    fn unseal(&self, sealed: SealedBytes, bound: &Bound) -> Result<Secret, UnsealError> {
        let mut bytes = sealed.bytes;
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let plain = self
            .key
            .open_in_place(nonce, Aad::from(&bound.0), &mut bytes)
            .map_err(|_| UnsealError::Forged)?
            .len();
        bytes.truncate(plain);
        Ok(Secret::new(bytes))
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MasterKey({:08x})", self.id)
    }
}

/// Master keys of a process. All of them open. The catalog says which one
/// seals; without a catalog, the first one does.
#[derive(Clone, Debug)]
pub struct KeyRing {
    /// Keys in the order of their text, the newest last.
    keys: Vec<Arc<MasterKey>>,
}

impl KeyRing {
    /// Makes a ring of one key.
    #[must_use]
    pub fn new(first: MasterKey) -> Self {
        Self {
            keys: vec![Arc::new(first)],
        }
    }

    /// Adds a key; one that is there already is not there twice.
    #[must_use]
    pub fn with(mut self, key: MasterKey) -> Self {
        self.add(Arc::new(key));
        self
    }

    /// Adds the keys of another ring: what that ring opens stays open.
    #[must_use]
    pub fn with_all(mut self, other: &Self) -> Self {
        other.keys.iter().for_each(|key| self.add(Arc::clone(key)));
        self
    }

    /// Returns the id of the first key.
    #[must_use]
    pub fn first(&self) -> u32 {
        self.keys[0].id
    }

    /// Returns the id of the last key, which was added last.
    #[must_use]
    pub fn newest(&self) -> u32 {
        self.keys[self.keys.len() - 1].id
    }

    /// Lists the ids of all keys, in their order.
    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.keys.iter().map(|key| key.id)
    }

    /// Tells whether it has this key.
    #[must_use]
    pub fn has(&self, id: u32) -> bool {
        self.key(id).is_some()
    }

    /// Seals a secret with the first key.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    #[must_use]
    pub fn seal(&self, secret: &Secret, bound: &Bound) -> SealedBytes {
        self.keys[0].seal(secret, bound)
    }

    /// Seals a secret with this key; none if the ring does not have it.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    #[must_use]
    pub fn seal_under(&self, id: u32, secret: &Secret, bound: &Bound) -> Option<SealedBytes> {
        Some(self.key(id)?.seal(secret, bound))
    }

    /// Opens what was sealed under one of its keys.
    ///
    /// # Errors
    /// [`UnsealError`]: no such key in the ring, or not what was sealed there.
    pub fn unseal(&self, sealed: SealedBytes, bound: &Bound) -> Result<Secret, UnsealError> {
        let key = self.key(sealed.key_id);
        let key = key.ok_or(UnsealError::UnknownKey(sealed.key_id))?;
        key.unseal(sealed, bound)
    }

    fn add(&mut self, key: Arc<MasterKey>) {
        if !self.has(key.id) {
            self.keys.push(key);
        }
    }

    fn key(&self, id: u32) -> Option<&MasterKey> {
        let mut keys = self.keys.iter();
        keys.find(|key| key.id == id).map(|key| &**key)
    }
}

/// Place of a secret: the data that is authenticated with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound(Vec<u8>);

impl Bound {
    /// Encodes the place of a credential's private key; none if the leaf is no
    /// certificate.
    #[must_use]
    pub fn credential<K>(catalog: CatalogId, credential: &StoredCredential<K>) -> Option<Self> {
        Some(Self::key(catalog, credential.id, credential.spki()?))
    }

    /// Encodes the place of a key by the leaf's SubjectPublicKeyInfo, DER.
    fn key(catalog: CatalogId, id: CredentialId, spki: &[u8]) -> Self {
        let (id, spki) = (id.as_u64().to_be_bytes(), digest(&SHA256, spki));
        Self::of(&[b"sekisho key 1", &catalog.0, &id, spki.as_ref()])
    }

    /// Encodes the place of a document's content.
    #[must_use]
    pub fn document(catalog: CatalogId, id: &DocumentId) -> Self {
        let (kind, key) = (id.kind.as_str().as_bytes(), id.key.as_bytes());
        Self::of(&[b"sekisho document 1", &catalog.0, kind, key])
    }

    /// Encodes the place of a lineage's order.
    #[must_use]
    pub fn lineage(catalog: CatalogId, name: &LineageName) -> Self {
        Self::of(&[b"sekisho lineage 1", &catalog.0, name.as_str().as_bytes()])
    }

    /// Encodes each part with its length before it: no two places give equal
    /// bytes.
    fn of(parts: &[&[u8]]) -> Self {
        let mut data = Vec::with_capacity(128);
        for part in parts {
            data.extend_from_slice(&(part.len() as u64).to_be_bytes());
            data.extend_from_slice(part);
        }
        Self(data)
    }
}

/// Why a sealed secret does not open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsealError {
    /// The ring has no key of that id.
    #[error("it is sealed under the master key {0:08x}, which is not among the keys given")]
    UnknownKey(u32),
    /// Changed, cut, or moved from where it was sealed.
    #[error("it is not what was sealed there")]
    Forged,
}

/// Why there is no key ring. Never shows a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// `[keys] master` names no source.
    #[error("this is no source of a key; write \"file:PATH\", \"env:NAME\" or \"command:LINE\"")]
    Source,
    /// A key file is never overwritten.
    #[error("master key {0} exists already; it is not overwritten, since a store may need it")]
    Exists(PathBuf),
    /// The source gives no key, or can't be changed.
    #[error("master key {of}: {what}")]
    Unusable {
        /// The source as the operator knows it.
        of: String,
        /// The problem, and what to do.
        what: String,
    },
}

impl KeyError {
    fn unusable(of: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::Unusable {
            of: of.to_string(),
            what: what.to_string(),
        }
    }
}

fn key_id(key: &[u8; KEY_BYTES]) -> u32 {
    let mut input = Zeroizing::new(Vec::with_capacity(64));
    input.extend_from_slice(b"sekisho master key id 1");
    input.extend_from_slice(key);
    let digest = digest(&SHA256, &input);
    let head = digest.as_ref().first_chunk().expect("a digest of 32 bytes");
    u32::from_be_bytes(*head)
}

/// AES-256's.
const KEY_BYTES: usize = 32;

#[cfg(test)]
mod tests;
