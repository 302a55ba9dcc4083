//! RSA keys as aws-lc has them, without the check that validation made.
//!
//! aws-lc's own readers prove that the eight numbers of a key fit together
//! (`RSA_check_key`), which takes half as long as a signature. A key that comes
//! out of a seal of ours was proved before it was sealed: here the numbers are
//! only put in their places. Wrong numbers could still give no wrong signature.
//! aws-lc verifies each with the public key before it gives it away, against
//! fault attacks.
#![expect(unsafe_code, reason = "aws-lc-rs has no reader that skips the check")]

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
#[derive(Clone, Debug)]
pub(super) struct RsaKey(Arc<Handle>);

/// Owner of aws-lc's object. Its `Debug` shows the address alone.
#[derive(Debug)]
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
        // SAFETY: reads the slice; null makes it allocate the number.
        let number =
            |bytes: &[u8]| unsafe { lc::BN_bin2bn(bytes.as_ptr(), bytes.len(), ptr::null_mut()) };
        let numbers = numbers.map(number);
        if numbers.iter().any(|number| number.is_null()) {
            // The process is out of memory: the other numbers are not freed.
            return None;
        }
        let [n, e, d, p, q, dp, dq, inverse] = numbers;
        // SAFETY: all are live objects, each given away once: a new RSA object
        // takes every number that is there, and frees it with itself.
        let set = unsafe {
            lc::RSA_set0_key(rsa, n, e, d)
                & lc::RSA_set0_factors(rsa, p, q)
                & lc::RSA_set0_crt_params(rsa, dp, dq, inverse)
        };
        (set == 1).then(|| Self(Arc::new(handle)))
    }
}

/// Number of PSS schemes, which stand first.
const PSS_SCHEMES: usize = 3;
/// RFC 8446, section 4.2.3: the salt is as long as the digest.
const SALT_LIKE_DIGEST: i32 = -1;

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

#[derive(Debug)]
struct RsaSigner {
    key: RsaKey,
    scheme: SignatureScheme,
}

impl Signer for RsaSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        use SignatureScheme as Scheme;
        let (hash, md): (_, unsafe extern "C" fn() -> _) = match self.scheme {
            Scheme::RSA_PSS_SHA512 | Scheme::RSA_PKCS1_SHA512 => (&digest::SHA512, lc::EVP_sha512),
            Scheme::RSA_PSS_SHA384 | Scheme::RSA_PKCS1_SHA384 => (&digest::SHA384, lc::EVP_sha384),
            _ => (&digest::SHA256, lc::EVP_sha256),
        };
        let digest = digest::digest(hash, message);
        let (bytes, count) = (digest.as_ref().as_ptr(), digest.as_ref().len());
        let rsa = self.key.0.0.as_ptr();
        // SAFETY: a live object.
        let size = unsafe { lc::RSA_size(rsa) } as usize;
        // RFC 8017, section 8: each signature is as long as the modulus.
        let mut signature = vec![0; size];
        let to = signature.as_mut_ptr();
        // SAFETY: the lengths are those of the slices, and the signature has the
        // room that RSA_size asks for. MD is one of aws-lc's constants; no second
        // one means the same for MGF1.
        let done = unsafe {
            let md = md();
            match SCHEMES[PSS_SCHEMES..].contains(&self.scheme) {
                true => lc::RSA_sign(lc::EVP_MD_type(md), bytes, count, to, &mut 0, rsa),
                false => lc::RSA_sign_pss_mgf1(
                    rsa,
                    &mut 0,
                    to,
                    size,
                    bytes,
                    count,
                    md,
                    ptr::null(),
                    SALT_LIKE_DIGEST,
                ),
            }
        };
        if done == 1 {
            return Ok(signature);
        }
        // SAFETY: forgets what this thread's queue of errors holds.
        unsafe { lc::ERR_clear_error() }
        Err(Error::General("the RSA key could not sign".into()))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

#[cfg(test)]
mod tests;
