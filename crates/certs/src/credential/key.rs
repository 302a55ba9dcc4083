//! Private keys: their form told apart, brought to PKCS#8, and parsed as the
//! one type that they say they are.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign;
use rustls::sign::SigningKey;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::error::CredentialError;
use super::{KeyType, Secret};
use crate::der::{self, INTEGER, OCTET_STRING, SEQUENCE, element};

/// A private key with the public one that it gives.
pub(super) struct PrivateKey {
    pub(super) key_type: KeyType,
    /// PKCS#8 (RFC 5958).
    pub(super) pkcs8: Secret,
    /// SubjectPublicKeyInfo, DER.
    pub(super) public: Vec<u8>,
}

impl PrivateKey {
    /// Parses a key in full: what it says of its own public half is checked.
    pub(super) fn parse(key: &Secret) -> Result<Self, CredentialError> {
        let (key_type, pkcs8) = normal(key)?;
        let der = PrivatePkcs8KeyDer::from(pkcs8.expose());
        let key = match key_type {
            KeyType::Ecdsa => sign::any_ecdsa_type(&PrivateKeyDer::Pkcs8(der)),
            KeyType::Ed25519 => sign::any_eddsa_type(&der),
            KeyType::Rsa => sign::RsaSigningKey::new(&PrivateKeyDer::Pkcs8(der))
                .map(|key| Arc::new(key) as Arc<dyn SigningKey>),
        };
        let public = key.ok().and_then(|key| Some(key.public_key()?.to_vec()));
        Ok(Self {
            key_type,
            public: public.ok_or(CredentialError::BrokenKey)?,
            pkcs8,
        })
    }
}

/// The key as PKCS#8, and the type that it says it is.
pub(super) fn normal(key: &Secret) -> Result<(KeyType, Secret), CredentialError> {
    let pkcs8 = to_pkcs8(key.expose())?;
    Ok((key_type(pkcs8.expose())?, pkcs8))
}

/// Whether a PKCS#8 key says itself that it belongs to this
/// SubjectPublicKeyInfo, without a computation: none if it does not say.
/// Whoever loads the key checks it in full.
pub(super) fn claims(pkcs8: &[u8], spki: &[u8]) -> Option<bool> {
    let (oid, _) = algorithm(pkcs8)?;
    if oid == RSA {
        return Some(der::rsa_public(spki)?[0] == der::rsa_private_modulus(pkcs8)?);
    }
    let public = sec1_parts(pkcs8_inner(pkcs8)?)?.public?;
    // The same bit string stands at the end of the leaf's.
    Some(!public.is_empty() && spki.ends_with(public))
}

enum Form {
    Pkcs8,
    Sec1,
    Pkcs1,
    Encrypted,
}

/// Tells the forms apart by their first elements: PKCS#8 has an algorithm
/// behind its version, SEC1 (RFC 5915) an octet string, PKCS#1 (RFC 8017) an
/// integer; an encrypted PKCS#8 begins with its algorithm.
fn form(key: &[u8]) -> Option<Form> {
    let (document, rest) = element(key, SEQUENCE)?;
    if !rest.is_empty() {
        return None;
    }
    if document.first() == Some(&SEQUENCE) {
        return Some(Form::Encrypted);
    }
    let (_, rest) = element(document, INTEGER)?;
    match *rest.first()? {
        SEQUENCE => Some(Form::Pkcs8),
        OCTET_STRING => Some(Form::Sec1),
        INTEGER => Some(Form::Pkcs1),
        _ => None,
    }
}

fn to_pkcs8(key: &[u8]) -> Result<Secret, CredentialError> {
    match form(key).ok_or(CredentialError::BrokenKey)? {
        Form::Pkcs8 => Ok(Secret::new(key.to_vec())),
        Form::Encrypted => Err(CredentialError::EncryptedKey),
        Form::Pkcs1 => Ok(wrap(&[RSA, NULL], key)),
        Form::Sec1 => {
            let parts = sec1_parts(key).ok_or(CredentialError::BrokenKey)?;
            let curve = match (parts.curve, parts.private.len()) {
                (Some(curve), _) => curve,
                (None, 32) => P256,
                (None, 48) => P384,
                (None, _) => return Err(CredentialError::UnsupportedKey("of an unnamed curve")),
            };
            Ok(wrap(&[EC, curve], key))
        }
    }
}

/// A PKCS#8 document of version 0 around a key.
fn wrap(algorithm: &[&[u8]], key: &[u8]) -> Secret {
    let oids = algorithm.iter().map(|part| match part.is_empty() {
        true => vec![0x05, 0x00],
        false => encode(OID, &[part]).to_vec(),
    });
    let oids: Vec<_> = oids.collect();
    let oids: Vec<&[u8]> = oids.iter().map(Vec::as_slice).collect();
    let algorithm = encode(SEQUENCE, &oids);
    let octets = encode(OCTET_STRING, &[key]);
    let version = [INTEGER, 1, 0];
    Secret::new(std::mem::take(&mut *encode(
        SEQUENCE,
        &[&version, &algorithm, &octets],
    )))
}

/// One DER element; its bytes have their whole room from the start, since
/// growing would leave copies of a key.
fn encode(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut bytes = Zeroizing::new(Vec::with_capacity(length + 5));
    bytes.push(tag);
    let big_endian = length.to_be_bytes();
    let zeros = big_endian.iter().take_while(|&&byte| byte == 0).count();
    match length {
        0..=0x7f => bytes.push(big_endian[7]),
        _ => {
            let digits = &big_endian[zeros..];
            bytes.push(0x80 | u8::try_from(digits.len()).expect("at most eight"));
            bytes.extend_from_slice(digits);
        }
    }
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

fn key_type(pkcs8: &[u8]) -> Result<KeyType, CredentialError> {
    let (oid, curve) = algorithm(pkcs8).ok_or(CredentialError::BrokenKey)?;
    let refused = match (oid, curve) {
        (EC, Some(P256 | P384)) => return Ok(KeyType::Ecdsa),
        (ED25519, _) => return Ok(KeyType::Ed25519),
        (RSA, _) => {
            let modulus = der::rsa_private_modulus(pkcs8).ok_or(CredentialError::BrokenKey)?;
            let bits =
                8 * modulus.len() - modulus.first().map_or(0, |b| b.leading_zeros()) as usize;
            return match bits {
                2048..=4096 => Ok(KeyType::Rsa),
                _ => Err(CredentialError::RsaBits(bits)),
            };
        }
        (EC, Some(P521)) => "ECDSA P-521",
        (EC, Some(SECP256K1)) => "ECDSA secp256k1",
        (EC, _) => "ECDSA on an unknown curve",
        (RSA_PSS, _) => "RSA-PSS",
        (ED448, _) => "Ed448",
        (X25519, _) => "X25519, which signs nothing",
        (DSA, _) => "DSA",
        _ => "of an unknown type",
    };
    Err(CredentialError::UnsupportedKey(refused))
}

/// The algorithm's object identifier, and the curve's where there is one.
fn algorithm(pkcs8: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let (document, _) = element(pkcs8, SEQUENCE)?;
    let (_, rest) = element(document, INTEGER)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (oid, parameters) = element(algorithm, OID)?;
    Some((oid, element(parameters, OID).map(|(curve, _)| curve)))
}

pub(super) fn pkcs8_inner(pkcs8: &[u8]) -> Option<&[u8]> {
    let (document, _) = element(pkcs8, SEQUENCE)?;
    let (_, rest) = element(document, INTEGER)?;
    let (_, rest) = element(rest, SEQUENCE)?;
    Some(element(rest, OCTET_STRING)?.0)
}

struct Sec1<'a> {
    private: &'a [u8],
    curve: Option<&'a [u8]>,
    /// The public point, without the count of unused bits.
    public: Option<&'a [u8]>,
}

fn sec1_parts(sec1: &[u8]) -> Option<Sec1<'_>> {
    let (document, _) = element(sec1, SEQUENCE)?;
    let (_, rest) = element(document, INTEGER)?;
    let (private, rest) = element(rest, OCTET_STRING)?;
    let (curve, rest) = match element(rest, CURVE) {
        Some((curve, rest)) => (Some(element(curve, OID)?.0), rest),
        None => (None, rest),
    };
    let public = element(rest, PUBLIC).and_then(|(bits, _)| element(bits, BIT_STRING)?.0.get(1..));
    Some(Sec1 {
        private,
        curve,
        public,
    })
}

const BIT_STRING: u8 = 0x03;
const OID: u8 = 0x06;
const CURVE: u8 = 0xa0;
const PUBLIC: u8 = 0xa1;

const NULL: &[u8] = b"";
const RSA: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
const RSA_PSS: &[u8] = b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0a";
const EC: &[u8] = b"\x2a\x86\x48\xce\x3d\x02\x01";
const P256: &[u8] = b"\x2a\x86\x48\xce\x3d\x03\x01\x07";
const P384: &[u8] = b"\x2b\x81\x04\x00\x22";
const P521: &[u8] = b"\x2b\x81\x04\x00\x23";
const SECP256K1: &[u8] = b"\x2b\x81\x04\x00\x0a";
const ED25519: &[u8] = b"\x2b\x65\x70";
const ED448: &[u8] = b"\x2b\x65\x71";
const X25519: &[u8] = b"\x2b\x65\x6e";
const DSA: &[u8] = b"\x2a\x86\x48\xce\x38\x04\x01";
