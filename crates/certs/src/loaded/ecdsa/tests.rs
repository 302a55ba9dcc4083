#![allow(clippy::unwrap_used)]

use std::sync::Weak;

use aws_lc_rs::signature::{self, ParsedPublicKey};
use sekisho_testkit::{Key, Pair, TestCa};

use super::*;
use crate::credential::{CredentialId, KeyType, Secret, StoredCredential, key};
use crate::der;
use crate::loaded::prepare;
use crate::seal::OpenKey;

const BOTH: [SignatureScheme; 2] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
];

fn issued(key: Key) -> Pair {
    TestCa::new().issue(&["a.test"], key)
}

fn read(pair: &Pair) -> EcdsaKey {
    let der = pair.key_der();
    let parts = key::elliptic(der.secret_der()).unwrap();
    assert!(parts.is_half_of(der::leaf(&pair.chain[0]).unwrap().spki));
    EcdsaKey::from_checked(parts.curve, parts.private).unwrap()
}

/// Verifies a signature of `message` with the leaf's key.
fn verifies(pair: &Pair, scheme: SignatureScheme, signed: &[u8]) -> bool {
    let algorithm: &'static signature::EcdsaVerificationAlgorithm = match scheme {
        SignatureScheme::ECDSA_NISTP256_SHA256 => &signature::ECDSA_P256_SHA256_ASN1,
        _ => &signature::ECDSA_P384_SHA384_ASN1,
    };
    let spki = der::leaf(&pair.chain[0]).unwrap().spki;
    let public = ParsedPublicKey::new(algorithm, spki).unwrap();
    public.verify_sig(b"message", signed).is_ok()
}

#[test]
fn signatures_verify_with_the_leaf() {
    for (kind, scheme) in [Key::P256, Key::P384].into_iter().zip(BOTH) {
        let pair = issued(kind);
        let key = read(&pair);
        // Only the scheme of the key's curve is used, though both are offered.
        let signer = key.choose_scheme(&BOTH).unwrap();
        assert_eq!(signer.scheme(), scheme);
        // Lengths differ by the leading bits of the two numbers.
        for _ in 0..64 {
            assert!(verifies(&pair, scheme, &signer.sign(b"message").unwrap()));
        }
        let others: Vec<_> = BOTH.into_iter().filter(|one| *one != scheme).collect();
        assert!(key.choose_scheme(&others).is_none(), "{kind:?}");
    }
}

#[test]
fn many_threads_sign_at_once() {
    let pair = issued(Key::P256);
    let key = read(&pair);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let signer = key.choose_scheme(&BOTH).unwrap();
                    let signed = signer.sign(b"message").unwrap();
                    assert!(verifies(&pair, BOTH[0], &signed));
                }
            });
        }
    });
}

/// SEC1 may leave the public half out (RFC 5915): the full parse computes it.
#[test]
fn a_key_without_its_public_half_is_parsed_in_full() {
    let pair = issued(Key::P256);
    let der = pair.key_der();
    let parts = key::elliptic(der.secret_der()).unwrap();
    let mut bare = vec![0x30, 0x31, 0x02, 0x01, 0x01, 0x04, 0x20];
    bare.extend(parts.private);
    bare.extend(*b"\xa0\x0a\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07");
    assert!(key::elliptic(&bare).is_none());
    assert!(loads_and_signs(&pair, bare));
}

/// `openssl ec -conv_form` writes such points: compressed, or whole with a sign (hybrid).
#[test]
fn a_key_with_another_form_of_its_point_is_parsed_in_full() {
    let pair = issued(Key::P256);
    let der = pair.key_der();
    let parts = key::elliptic(der.secret_der()).unwrap();
    let spki = der::leaf(&pair.chain[0]).unwrap().spki;
    let (x, y) = spki[spki.len() - 64..].split_at(32);
    let sign = y[31] & 1;
    let compressed = [&[2 + sign], x].concat();
    let hybrid = [&[6 + sign], x, y].concat();
    for point in [compressed, hybrid] {
        let key = pkcs8(parts.private, &point);
        assert!(!key::elliptic(&key).unwrap().is_half_of(spki));
        assert!(loads_and_signs(&pair, key));
    }
}

/// Writes a key on P-256 as PKCS#8.
fn pkcs8(private: &[u8], point: &[u8]) -> Vec<u8> {
    const ALGORITHM: &[u8] =
        b"\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
    let public = element(0xa1, &element(0x03, &[&[0], point].concat()));
    let inner = [element(2, &[1]), element(4, private), public].concat();
    let inner = element(4, &element(0x30, &inner));
    element(0x30, &[&element(2, &[0]), ALGORITHM, &inner].concat())
}

/// Writes an element of DER with less than 256 bytes.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    let head: &[u8] = match length {
        0..0x80 => &[tag, length],
        _ => &[tag, 0x81, length],
    };
    [head, content].concat()
}

/// Loads a key as out of a seal, beside the pair's leaf, and verifies a signature.
fn loads_and_signs(pair: &Pair, key: Vec<u8>) -> bool {
    let stored = StoredCredential {
        id: CredentialId::from_u64(1),
        version: 1,
        key_type: KeyType::Ecdsa,
        chain: pair.chain.clone(),
        key: OpenKey::assumed(Secret::new(key)),
        not_before: 0,
        not_after: i64::MAX,
        origin: None,
    };
    let loaded = prepare(stored, 0, 0, Weak::new()).unwrap();
    let signer = loaded.certified().key.choose_scheme(&BOTH).unwrap();
    verifies(pair, BOTH[0], &signer.sign(b"message").unwrap())
}

/// A number that was damaged before it was sealed signs for no leaf.
#[test]
fn a_damaged_number_signs_for_another_key() {
    let pair = issued(Key::P256);
    let der = pair.key_der();
    let mut number = key::elliptic(der.secret_der()).unwrap().private.to_vec();
    number[20] ^= 0x10;
    let key = EcdsaKey::from_checked(Curve::P256, &number).unwrap();
    let signed = key.choose_scheme(&BOTH).unwrap().sign(b"message").unwrap();
    assert!(!verifies(&pair, BOTH[0], &signed));
}

#[test]
fn numbers_outside_of_the_curve_are_none() {
    for number in [&[0; 32][..], &[0xff; 32], &[], &[1; 64]] {
        assert!(EcdsaKey::from_checked(Curve::P256, number).is_none());
    }
}
