//! ECDSA keys as aws-lc has them, without the check that validation made.
//!
//! aws-lc's own readers compute the public key from the private one and compare the
//! two (`EC_KEY_check_key`), which takes half as long as a signature. A key that comes
//! out of a seal of ours was proved before it was sealed: aws-lc gets its private number
//! alone. A signature needs no other part of the key. A wrong number gives another key's
//! signature, which clients refuse.
#![expect(unsafe_code, reason = "aws-lc-rs has no reader that skips the check")]

use std::ffi::c_uint;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use aws_lc_rs::digest;
use aws_lc_sys as lc;
use rustls::sign::{Signer, SigningKey};
use rustls::{Error, SignatureAlgorithm, SignatureScheme};

use crate::credential::key::Curve;

/// A private key on P-256 or P-384; its number is wiped when it is dropped.
#[derive(Clone, Debug)]
pub(super) struct EcdsaKey {
    handle: Arc<Handle>,
    curve: Curve,
}

/// Owner of aws-lc's object. Its `Debug` shows the address alone.
#[derive(Debug)]
struct Handle(NonNull<lc::EC_KEY>);

// SAFETY: an object that is built is never changed. Signing takes it as constant.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the one reference that there is; nobody uses it afterwards.
        unsafe { lc::EC_KEY_free(self.0.as_ptr()) }
    }
}

impl EcdsaKey {
    /// Makes a key of the private number of a key that was checked before. None if the
    /// number is zero or not below the curve's order, or if there is no memory.
    pub(super) fn from_checked(curve: Curve, private: &[u8]) -> Option<Self> {
        let name = match curve {
            Curve::P256 => lc::NID_X9_62_prime256v1,
            Curve::P384 => lc::NID_secp384r1,
        };
        // SAFETY: any number may stand for a curve.
        let handle = Handle(NonNull::new(unsafe { lc::EC_KEY_new_by_curve_name(name) })?);
        // SAFETY: reads the slice; null makes it allocate the number.
        let number = unsafe { lc::BN_bin2bn(private.as_ptr(), private.len(), ptr::null_mut()) };
        let number = NonNull::new(number)?;
        // SAFETY: both are live objects. The key takes a copy of the number, which is
        // then wiped and freed.
        let set = unsafe {
            let set = lc::EC_KEY_set_private_key(handle.0.as_ptr(), number.as_ptr());
            lc::BN_clear_free(number.as_ptr());
            set
        };
        if set != 1 {
            forget_errors();
            return None;
        }
        let handle = Arc::new(handle);
        Some(Self { handle, curve })
    }

    /// Returns the one scheme of TLS 1.3 for a curve (RFC 8446, section 4.2.3).
    fn scheme(&self) -> SignatureScheme {
        match self.curve {
            Curve::P256 => SignatureScheme::ECDSA_NISTP256_SHA256,
            Curve::P384 => SignatureScheme::ECDSA_NISTP384_SHA384,
        }
    }
}

impl SigningKey for EcdsaKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let is_offered = offered.contains(&self.scheme());
        is_offered.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for EcdsaKey {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let digest = match self.curve {
            Curve::P256 => digest::digest(&digest::SHA256, message),
            Curve::P384 => digest::digest(&digest::SHA384, message),
        };
        let (bytes, count) = (digest.as_ref().as_ptr(), digest.as_ref().len());
        let key = self.handle.0.as_ptr();
        // SAFETY: a live object.
        let mut signature = vec![0; unsafe { lc::ECDSA_size(key) }];
        let mut length: c_uint = 0;
        // SAFETY: the length is the slice's, and the signature has the room that
        // ECDSA_size asks for. The first argument is ignored.
        let done =
            unsafe { lc::ECDSA_sign(0, bytes, count, signature.as_mut_ptr(), &mut length, key) };
        if done != 1 {
            forget_errors();
            return Err(Error::General("the ECDSA key could not sign".into()));
        }
        signature.truncate(length as usize);
        Ok(signature)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme()
    }
}

/// Empties this thread's queue of errors.
fn forget_errors() {
    // SAFETY: takes no arguments.
    unsafe { lc::ERR_clear_error() }
}

#[cfg(test)]
mod tests;
