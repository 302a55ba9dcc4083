#![allow(clippy::unwrap_used)]

use aws_lc_rs::signature::{self, ParsedPublicKey};
use sekisho_testkit::{Key, Pair, TestCa};

use super::*;
use crate::der;

fn issued() -> Pair {
    TestCa::new().issue(&["a.test"], Key::Rsa2048)
}

fn key(issued: &Pair) -> RsaKey {
    from_der(issued.key_der().secret_der()).unwrap()
}

fn from_der(der: &[u8]) -> Option<RsaKey> {
    RsaKey::from_checked(der::rsa_private(der)?)
}

/// The verifying half, from the leaf.
fn verifies(issued: &Pair, scheme: SignatureScheme, signed: &[u8]) -> bool {
    let algorithm: &'static signature::RsaParameters = match scheme {
        SignatureScheme::RSA_PSS_SHA512 => &signature::RSA_PSS_2048_8192_SHA512,
        SignatureScheme::RSA_PSS_SHA384 => &signature::RSA_PSS_2048_8192_SHA384,
        SignatureScheme::RSA_PSS_SHA256 => &signature::RSA_PSS_2048_8192_SHA256,
        SignatureScheme::RSA_PKCS1_SHA512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        SignatureScheme::RSA_PKCS1_SHA384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        _ => &signature::RSA_PKCS1_2048_8192_SHA256,
    };
    let spki = der::leaf(&issued.chain[0]).unwrap().spki;
    let public = ParsedPublicKey::new(algorithm, spki).unwrap();
    public.verify_sig(b"message", signed).is_ok()
}

#[test]
fn each_scheme_verifies_with_the_leaf() {
    let issued = issued();
    let key = key(&issued);
    for scheme in SCHEMES {
        let signer = key.choose_scheme(&[scheme]).unwrap();
        assert_eq!(signer.scheme(), scheme);
        let signed = signer.sign(b"message").unwrap();
        assert!(verifies(&issued, scheme, &signed), "{scheme:?}");
    }
    assert!(
        key.choose_scheme(&[SignatureScheme::ED25519]).is_none(),
        "not its own"
    );
}

#[test]
fn the_first_of_its_own_order_is_chosen() {
    let offered = [
        SignatureScheme::RSA_PKCS1_SHA256,
        SignatureScheme::RSA_PSS_SHA256,
    ];
    let signer = key(&issued()).choose_scheme(&offered).unwrap();
    assert_eq!(signer.scheme(), SignatureScheme::RSA_PSS_SHA256);
}

#[test]
fn many_threads_sign_at_once() {
    let issued = issued();
    let key = key(&issued);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let scheme = SignatureScheme::RSA_PSS_SHA256;
                for _ in 0..50 {
                    let signer = key.choose_scheme(&[scheme]).unwrap();
                    assert!(verifies(&issued, scheme, &signer.sign(b"message").unwrap()));
                }
            });
        }
    });
}

/// A damaged number makes no signature at all: half a right one would give
/// the factors of the modulus away.
#[test]
fn damaged_numbers_sign_nothing() {
    let der = issued().key_der().secret_der().to_vec();
    let numbers = der::rsa_private(&der).unwrap();
    // All but the modulus and e, with which the signature is verified.
    for (index, number) in numbers.iter().enumerate().skip(2) {
        let at = number.as_ptr().addr() - der.as_ptr().addr() + number.len() / 2;
        let mut damaged = der.clone();
        damaged[at] ^= 0x10;
        let Some(key) = from_der(&damaged) else {
            continue;
        };
        let signer = key.choose_scheme(&SCHEMES).unwrap();
        // A private exponent is not used where its two parts are.
        let signs = signer.sign(b"message").is_ok();
        assert_eq!(signs, index == 2, "number {index}");
    }
}

#[test]
fn what_is_no_key_of_two_primes_is_none() {
    let der = issued().key_der().secret_der().to_vec();
    assert!(from_der(&der[..der.len() - 1]).is_none());
    assert!(from_der(b"").is_none());
    let ecdsa = TestCa::new().issue(&["a.test"], Key::P256);
    assert!(from_der(ecdsa.key_der().secret_der()).is_none());
}
