//! Private keys: their encodings told apart, and parsed as the one type that
//! they say they are.

use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair,
};
use rustls::crypto::aws_lc_rs::sign;
use rustls::sign::SigningKey;
use rustls_pki_types::PrivateKeyDer;

use super::error::CredentialError;
use super::{KeyType, Secret};
use crate::der::{self, BIT_STRING, INTEGER, OCTET_STRING, OID, SEQUENCE, element};

/// Parses a private key as `key_type` alone: trying all types in turn would
/// parse and check an elliptic key several times.
pub(crate) fn parse(key: &[u8], key_type: KeyType) -> Result<Arc<dyn SigningKey>, String> {
    let key = encoding(key).ok_or("its private key is neither PKCS#8 nor SEC1 nor PKCS#1")?;
    let parsed = match (key_type, &key) {
        (KeyType::Ecdsa, key) => sign::any_ecdsa_type(key),
        (KeyType::Rsa, key) => {
            sign::RsaSigningKey::new(key).map(|key| Arc::new(key) as Arc<dyn SigningKey>)
        }
        (KeyType::Ed25519, PrivateKeyDer::Pkcs8(der)) => sign::any_eddsa_type(der),
        (KeyType::Ed25519, _) => return Err("an Ed25519 key must be PKCS#8".into()),
    };
    parsed.map_err(|error| format!("its {} key can't be used: {error}", key_type.as_str()))
}

/// Converts a key of that type to PKCS#8 (RFC 5958).
pub(super) fn to_pkcs8(key: Secret, key_type: KeyType) -> Result<Secret, CredentialError> {
    let der = key.expose();
    let secret = |der: &[u8]| Secret::new(der.to_vec());
    let converted = match (encoding(der), key_type) {
        (Some(PrivateKeyDer::Pkcs8(_)), _) => return Ok(key),
        (_, KeyType::Rsa) => {
            let key = rsa::KeyPair::from_der(der).ok();
            key.and_then(|key| AsDer::<Pkcs8V1Der<'_>>::as_der(&key).ok())
                .map(|der| secret(der.as_ref()))
        }
        _ => [
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            &ECDSA_P384_SHA384_ASN1_SIGNING,
        ]
        .into_iter()
        .find_map(|curve| EcdsaKeyPair::from_private_key_der(curve, der).ok())
        .and_then(|key| key.to_pkcs8v1().ok())
        .map(|der| secret(der.as_ref())),
    };
    converted.ok_or(CredentialError::BrokenKey)
}

/// Compares the public key inside a private key with a SubjectPublicKeyInfo,
/// without a computation. Returns none if the private key holds no public one.
/// Loading the key checks it in full.
pub(super) fn claims(key: &[u8], key_type: KeyType, spki: &[u8]) -> Option<bool> {
    if key_type == KeyType::Rsa {
        return Some(der::rsa_public(spki)?[0] == der::rsa_private_modulus(key)?);
    }
    let public = sec1_parts(pkcs8_inner(key).unwrap_or(key))?.public?;
    // The leaf's public key ends with that bit string too.
    Some(!public.is_empty() && spki.ends_with(public))
}

/// Returns the halves of a key on P-256 or P-384. None if the key is no such key, or
/// has no public half. A SEC1 key that names no curve has the curve of its length.
pub(crate) fn elliptic(key: &[u8]) -> Option<Elliptic<'_>> {
    let (EC, Some(curve)) = algorithm(key)? else {
        return None;
    };
    let parts = sec1_parts(pkcs8_inner(key).unwrap_or(key))?;
    if parts.curve.is_some_and(|inner| inner != curve) {
        return None;
    }
    Some(Elliptic {
        curve: Curve::of(curve)?,
        private: parts.private,
        public: parts.public?,
    })
}

/// Private key on an elliptic curve, borrowed from its DER.
pub(crate) struct Elliptic<'a> {
    pub(crate) curve: Curve,
    pub(crate) private: &'a [u8],
    public: &'a [u8],
}

impl Elliptic<'_> {
    /// Tells whether the public half is this SubjectPublicKeyInfo (RFC 5480), curve
    /// included.
    pub(crate) fn is_half_of(&self, spki: &[u8]) -> bool {
        let of_spki = || {
            let (spki, _) = element(spki, SEQUENCE)?;
            let (algorithm, rest) = element(spki, SEQUENCE)?;
            let (oid, parameters) = element(algorithm, OID)?;
            let (curve, _) = element(parameters, OID)?;
            let (bits, _) = element(rest, BIT_STRING)?;
            (oid == EC).then_some((Curve::of(curve)?, bits.get(1..)?))
        };
        of_spki() == Some((self.curve, self.public))
    }
}

/// Curve of an ECDSA key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Curve {
    /// NIST's curve of 256 bits.
    P256,
    /// NIST's curve of 384 bits.
    P384,
}

impl Curve {
    fn of(oid: &[u8]) -> Option<Self> {
        match oid {
            P256 => Some(Self::P256),
            P384 => Some(Self::P384),
            _ => None,
        }
    }
}

/// Tells the encodings apart: PKCS#8 (RFC 5958), SEC1 (RFC 5915) and PKCS#1 (RFC 8017).
fn encoding(key: &[u8]) -> Option<PrivateKeyDer<'_>> {
    let (_, behind) = element(key, SEQUENCE)?;
    let told = PrivateKeyDer::try_from(key).ok();
    told.filter(|_| behind.is_empty())
}

/// Returns the type that a key says it is.
pub(super) fn key_type(key: &[u8]) -> Result<KeyType, CredentialError> {
    let (oid, curve) = algorithm(key).ok_or_else(|| match element(key, SEQUENCE) {
        // An encrypted PKCS#8 begins with its algorithm.
        Some((inside, _)) if inside.first() == Some(&SEQUENCE) => CredentialError::EncryptedKey,
        _ => CredentialError::BrokenKey,
    })?;
    let refused = match (oid, curve) {
        (EC, Some(P256 | P384)) => return Ok(KeyType::Ecdsa),
        (ED25519, _) => return Ok(KeyType::Ed25519),
        (RSA, _) => {
            let modulus = der::rsa_private_modulus(key).ok_or(CredentialError::BrokenKey)?;
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

/// Returns the algorithm's object identifier, and the curve's where there is
/// one.
fn algorithm(key: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    match encoding(key)? {
        PrivateKeyDer::Pkcs1(_) => Some((RSA, None)),
        PrivateKeyDer::Sec1(_) => {
            let parts = sec1_parts(key)?;
            let by_length = match parts.private.len() {
                32 => Some(P256),
                48 => Some(P384),
                _ => None,
            };
            Some((EC, parts.curve.or(by_length)))
        }
        _ => {
            let (document, _) = element(key, SEQUENCE)?;
            let (_, rest) = element(document, INTEGER)?;
            let (algorithm, _) = element(rest, SEQUENCE)?;
            let (oid, parameters) = element(algorithm, OID)?;
            Some((oid, element(parameters, OID).map(|(curve, _)| curve)))
        }
    }
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

const CURVE: u8 = 0xa0;
const PUBLIC: u8 = 0xa1;

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
