//! RSA keys as aws-lc has them, without the check that validation made.
//!
//! aws-lc's own readers prove that the eight numbers of a key fit together
//! (`RSA_check_key`), which takes half as long as a signature. A key that comes
//! out of a seal of ours was proved before it was sealed: here the numbers are
//! only put in their places. Wrong numbers could still give no wrong signature.
//! aws-lc verifies each with the public key before it gives it away, against
//! fault attacks.
#![expect(unsafe_code, reason = "aws-lc-rs has no reader that skips the check")]

use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use aws_lc_rs::digest;
use aws_lc_sys as lc;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

/// The schemes of TLS that an RSA key signs (RFC 8446, section 4.2.3), in the
/// order of preference: TLS 1.2 has PKCS#1, later versions only PSS.
pub(super) const SCHEMES: [SignatureScheme; 6] = [
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA512,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// A private key of two primes; its numbers are wiped when it is dropped.
#[derive(Clone)]
pub(super) struct RsaKey(Arc<Handle>);

/// aws-lc's object, which is this one's alone.
struct Handle(NonNull<lc::RSA>);

// SAFETY: aws-lc's RSA objects may be used from many threads once they are
// built: what a signature changes in them is behind a lock of their own.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the one reference that there is; nobody uses it afterwards.
        unsafe { lc::RSA_free(self.0.as_ptr()) }
    }
}

impl RsaKey {
    /// Makes a key of the numbers of a key that was checked before
    /// ([`crate::der::rsa_private`]). None if there is no memory.
    pub(super) fn from_checked(numbers: [&[u8]; 8]) -> Option<Self> {
        // SAFETY: takes no arguments.
        let handle = Handle(NonNull::new(unsafe { lc::RSA_new() })?);
        let rsa = handle.0.as_ptr();
        let numbers = numbers.map(Number::new);
        if numbers.iter().any(|number| number.0.is_null()) {
            return None;
        }
        let [n, e, d, p, q, dp, dq, inverse] = numbers.map(Number::into_raw);
        // SAFETY: all are live objects, each given away once: a new RSA object
        // takes every number that is there, and frees it with itself.
        let set = unsafe {
            lc::RSA_set0_key(rsa, n, e, d)
                & lc::RSA_set0_factors(rsa, p, q)
                & lc::RSA_set0_crt_params(rsa, dp, dq, inverse)
        };
        (set == 1).then(|| Self(Arc::new(handle)))
    }

    fn sign(&self, kind: Kind, digest: &[u8]) -> Option<Vec<u8>> {
        let rsa = self.0.0.as_ptr();
        // SAFETY: a live object.
        let mut signature = vec![0; usize::try_from(unsafe { lc::RSA_size(rsa) }).ok()?];
        let (written, done) = match kind {
            Kind::Pss(md) => {
                let mut written = 0;
                // SAFETY: the lengths are those of the slices; MD is one of
                // aws-lc's constants; no second one means the same for MGF1.
                let done = unsafe {
                    lc::RSA_sign_pss_mgf1(
                        rsa,
                        &raw mut written,
                        signature.as_mut_ptr(),
                        signature.len(),
                        digest.as_ptr(),
                        digest.len(),
                        md(),
                        ptr::null(),
                        SALT_LIKE_DIGEST,
                    )
                };
                (written, done)
            }
            Kind::Pkcs1(nid) => {
                let mut written = 0;
                // SAFETY: the signature has the room that RSA_size asks for.
                let done = unsafe {
                    lc::RSA_sign(
                        nid,
                        digest.as_ptr(),
                        digest.len(),
                        signature.as_mut_ptr(),
                        &raw mut written,
                        rsa,
                    )
                };
                (usize::try_from(written).ok()?, done)
            }
        };
        if done != 1 {
            // SAFETY: forgets what this thread's queue of errors holds.
            unsafe { lc::ERR_clear_error() }
            return None;
        }
        signature.truncate(written);
        Some(signature)
    }
}

/// RFC 8446, section 4.2.3: the salt is as long as the digest.
const SALT_LIKE_DIGEST: i32 = -1;

/// A number on its way into a key.
struct Number(*mut lc::BIGNUM);

impl Number {
    /// Makes a number; null if there is no memory.
    fn new(bytes: &[u8]) -> Self {
        // SAFETY: reads the slice; null makes it allocate the number.
        Self(unsafe { lc::BN_bin2bn(bytes.as_ptr(), bytes.len(), ptr::null_mut()) })
    }

    fn into_raw(self) -> *mut lc::BIGNUM {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        // SAFETY: null, or a number that nobody else has; it is wiped.
        unsafe { lc::BN_free(self.0) }
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Pss(unsafe extern "C" fn() -> *const lc::EVP_MD),
    Pkcs1(i32),
}

impl SigningKey for RsaKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = SCHEMES.into_iter().find(|one| offered.contains(one))?;
        Some(Box::new(RsaSigner {
            key: self.clone(),
            scheme,
        }))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}

impl fmt::Debug for RsaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RsaKey(…)")
    }
}

#[derive(Debug)]
struct RsaSigner {
    key: RsaKey,
    scheme: SignatureScheme,
}

impl Signer for RsaSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let (kind, algorithm) = match self.scheme {
            SignatureScheme::RSA_PSS_SHA512 => (Kind::Pss(lc::EVP_sha512), &digest::SHA512),
            SignatureScheme::RSA_PSS_SHA384 => (Kind::Pss(lc::EVP_sha384), &digest::SHA384),
            SignatureScheme::RSA_PSS_SHA256 => (Kind::Pss(lc::EVP_sha256), &digest::SHA256),
            SignatureScheme::RSA_PKCS1_SHA512 => (Kind::Pkcs1(lc::NID_sha512), &digest::SHA512),
            SignatureScheme::RSA_PKCS1_SHA384 => (Kind::Pkcs1(lc::NID_sha384), &digest::SHA384),
            _ => (Kind::Pkcs1(lc::NID_sha256), &digest::SHA256),
        };
        let digest = digest::digest(algorithm, message);
        self.key
            .sign(kind, digest.as_ref())
            .ok_or_else(|| Error::General("the RSA key could not sign".into()))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

#[cfg(test)]
mod tests;
