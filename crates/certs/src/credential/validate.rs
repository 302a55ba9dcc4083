//! Checks that every credential passes before it is stored.

use std::mem;

use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use super::chain::{self, Chain, arrange};
use super::error::{CredentialError, Date};
use super::key;
use super::pem::{self, Contents, Wanted};
use super::{CredentialId, KeyType, Secret, StoredCredential};
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
    /// The root that issued a leaf which stands alone.
    root: Option<CertificateDer<'static>>,
}

impl Credential {
    /// Checks a chain and a key, each PEM or DER; what else stands in the
    /// files is passed over. In order: forms, key, leaf, chain, sizes, dates.
    /// The chain's order is repaired. Both may be one PEM file.
    ///
    /// # Errors
    /// The first check that failed, in words for an operator.
    pub fn parse(chain: &[u8], key: &[u8], dates: Dates) -> Result<Self, CredentialError> {
        Self::parse_under(chain, key, dates, &[])
    }

    /// As [`Credential::parse`]; a leaf that one of `roots` issued needs no
    /// further certificate.
    ///
    /// # Errors
    /// As [`Credential::parse`].
    pub fn parse_under(
        chain: &[u8],
        key: &[u8],
        dates: Dates,
        roots: &[CertificateDer<'static>],
    ) -> Result<Self, CredentialError> {
        let certificates = pem::read(chain, Wanted::Certificates)?.certificates;
        let keys = pem::read(key, Wanted::Key)?.keys;
        Self::check(Contents { certificates, keys }, dates, roots)
    }

    /// Reads a pair that others keep, at each load. Dates do not count. A chain
    /// that begins with the leaf is taken as it stands if the key names the
    /// leaf's public key; the full parse of a load checks the rest. Names and
    /// notes are filled in only where that is not so.
    pub fn parse_stored(chain: &[u8], key: &[u8]) -> Result<Self, CredentialError> {
        let certificates = pem::read(chain, Wanted::Certificates)?.certificates;
        let keys = pem::read(key, Wanted::Key)?.keys;
        Self::stored(Contents { certificates, keys })
    }

    /// Reads chain and key from one PEM text, as [`Credential::parse_stored`]
    /// does.
    pub fn parse_stored_bundle(bundle: &[u8]) -> Result<Self, CredentialError> {
        Self::stored(pem::read(bundle, Wanted::Certificates)?)
    }

    /// Reads a pair as [`Credential::parse_stored`] does, and compares the names of its
    /// chain, without any signature: each certificate's issuer is the subject of the
    /// next. A root behind the chain is left out. Returns none where names do not fit:
    /// the full parse orders the chain, or says what is wrong.
    ///
    /// # Errors
    /// The files can't be read, the key is none, or the chain is too large.
    pub fn parse_named(chain: &[u8], key: &[u8]) -> Result<Option<Self>, CredentialError> {
        let mut contents = Contents {
            certificates: pem::read(chain, Wanted::Certificates)?.certificates,
            keys: pem::read(key, Wanted::Key)?.keys,
        };
        let found = Self::as_it_stands(&mut contents)?;
        Ok(found.and_then(|mut found| found.is_named().then_some(found)))
    }

    fn stored(mut contents: Contents) -> Result<Self, CredentialError> {
        match Self::as_it_stands(&mut contents)? {
            Some(found) => Ok(found),
            None => Self::check(contents, Dates::Any, &[]),
        }
    }

    /// Takes a chain that begins with the leaf, if the key names the leaf's public key.
    /// Else the contents are left as they are.
    fn as_it_stands(contents: &mut Contents) -> Result<Option<Self>, CredentialError> {
        let leaf = contents.certificates.first();
        let leaf = leaf.and_then(|leaf| der::leaf(leaf));
        let (Some(leaf), [key]) = (leaf, &contents.keys[..]) else {
            return Ok(None);
        };
        let key_type = key::key_type(key.expose())?;
        if key::claims(key.expose(), key_type, leaf.spki) != Some(true) {
            return Ok(None);
        }
        let (not_before, not_after) = (leaf.not_before, leaf.not_after);
        sizes(&contents.certificates)?;
        Ok(Some(Self {
            key_type,
            key: key.clone(),
            chain: mem::take(&mut contents.certificates),
            names: Vec::new(),
            not_before,
            not_after,
            notes: Vec::new(),
            root: None,
        }))
    }

    /// Compares the names in the chain, and leaves the root out. A leaf may stand alone
    /// only if it names itself as its issuer.
    fn is_named(&mut self) -> bool {
        let headers: Option<Vec<_>> = self.chain.iter().map(|der| der::leaf(der)).collect();
        let Some(headers) = headers else {
            return false;
        };
        let fit = headers
            .windows(2)
            .all(|pair| pair[0].issuer == pair[1].subject);
        let top = headers.last().expect("a chain has a leaf");
        let (is_alone, is_root) = (headers.len() == 1, top.issuer == top.subject);
        if is_root && !is_alone {
            self.chain.pop();
        }
        fit && (is_root || !is_alone)
    }

    fn check(
        contents: Contents,
        dates: Dates,
        roots: &[CertificateDer<'static>],
    ) -> Result<Self, CredentialError> {
        if contents.certificates.is_empty() {
            return Err(CredentialError::NoCertificate);
        }
        let key = match &contents.keys[..] {
            [] => return Err(CredentialError::NoKey),
            [key] => key,
            keys => return Err(CredentialError::SeveralKeys(keys.len())),
        };
        let key_type = key::key_type(key.expose())?;
        // The full parse checks what the key says of its own public half.
        let public = key::parse(key.expose(), key_type).ok();
        let public = public.and_then(|key| Some(key.public_key()?.to_vec()));
        let public = public.ok_or(CredentialError::BrokenKey)?;
        let Chain {
            ders: chain,
            root,
            mut notes,
        } = arrange(contents.certificates, &public, roots)?;
        sizes(&chain)?;
        let (_, leaf) = X509Certificate::from_der(&chain[0]).expect("arranging has parsed it");
        let names = names(&leaf, &mut notes);
        let header = der::leaf(&chain[0]).expect("arranging has read it");
        let (not_before, not_after) = (header.not_before, header.not_after);
        dates.check(not_before, not_after)?;
        Ok(Self {
            key_type,
            key: key::to_pkcs8(key.clone(), key_type)?,
            names,
            not_before,
            not_after,
            notes,
            root,
            chain,
        })
    }

    /// Returns the type of the key.
    #[must_use]
    pub fn key_type(&self) -> KeyType {
        self.key_type
    }

    /// Returns the chain: leaf first, then each certificate's issuer, without
    /// the root.
    #[must_use]
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }

    /// Returns the DNS names of the leaf, without those that no host can have.
    #[must_use]
    pub fn names(&self) -> &[HostPattern] {
        &self.names
    }

    /// Returns the end of the leaf's validity, seconds since the Unix epoch.
    #[must_use]
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Returns the known root that issued a leaf which stands alone. None for a
    /// self-signed leaf, and for a chain that brings its issuers.
    pub(super) fn root(&self) -> Option<&CertificateDer<'static>> {
        self.root.as_ref()
    }

    /// Returns what was repaired or left out, for the operator.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the key with what is stored of the rest.
    pub(crate) fn into_parts(self, id: CredentialId) -> StoredCredential<Secret> {
        StoredCredential {
            id,
            version: 0,
            key_type: self.key_type,
            chain: self.chain,
            key: self.key,
            not_before: self.not_before,
            not_after: self.not_after,
            origin: None,
        }
    }
}

/// Requirement on the validity of the leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dates {
    /// At this time, seconds since the Unix epoch.
    ValidAt(i64),
    /// Any dates pass: what is expired is served on.
    Any,
}

impl Dates {
    pub(super) fn check(self, not_before: i64, not_after: i64) -> Result<(), CredentialError> {
        match self {
            Self::ValidAt(now) if now > not_after => Err(CredentialError::Expired(Date(not_after))),
            Self::ValidAt(now) if now < not_before => {
                Err(CredentialError::NotYetValid(Date(not_before)))
            }
            Self::ValidAt(_) | Self::Any => Ok(()),
        }
    }
}

fn sizes(chain: &[CertificateDer<'static>]) -> Result<(), CredentialError> {
    CredentialError::check_count(chain.len(), MAX_CHAIN)?;
    let bytes = chain.iter().map(|der| der.len()).sum();
    CredentialError::check_size("the chain", bytes, MAX_CHAIN_BYTES)
}

/// Reads the subject's alternative names, which alone count (RFC 9525, section
/// 2).
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
        let leaf = chain::describe(leaf);
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
