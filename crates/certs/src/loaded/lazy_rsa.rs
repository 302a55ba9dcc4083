//! An RSA key that is parsed when the first client asks for it.

use std::sync::{Arc, OnceLock};

use rustls::crypto::aws_lc_rs::sign::RsaSigningKey;
use rustls::sign::{Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::SubjectPublicKeyInfoDer;

use super::form;
use crate::credential::{CredentialId, Secret};
use crate::der;

/// Holds the encoded key until its first use. Which leaf it belongs to is
/// known from the start, by its modulus.
#[derive(Debug)]
pub(super) struct LazyRsaKey {
    id: CredentialId,
    encoded: Secret,
    parsed: OnceLock<Option<Arc<dyn SigningKey>>>,
}

impl LazyRsaKey {
    /// Compares the moduli of the key and of the leaf's public key.
    pub(super) fn new(id: CredentialId, encoded: &Secret, spki: &[u8]) -> Result<Self, String> {
        let private =
            der::rsa_private_modulus(encoded.expose()).ok_or("its RSA key can't be read")?;
        let public = der::rsa_modulus(spki).ok_or("its leaf's public key is not RSA")?;
        if private != public {
            return Err("its private key does not belong to its leaf certificate".into());
        }
        Ok(Self {
            id,
            encoded: encoded.clone(),
            parsed: OnceLock::new(),
        })
    }

    /// Parses it now, if it has not been used before.
    pub(super) fn is_usable(&self) -> bool {
        self.parsed().is_some()
    }

    fn parsed(&self) -> Option<&Arc<dyn SigningKey>> {
        let parse = || {
            let key = form(self.encoded.expose())?;
            match RsaSigningKey::new(&key) {
                Ok(key) => Some(Arc::new(key) as Arc<dyn SigningKey>),
                Err(error) => {
                    tracing::error!(credential = %self.id, %error, "an RSA key can't be used although its modulus fits");
                    None
                }
            }
        };
        self.parsed.get_or_init(parse).as_ref()
    }
}

impl SigningKey for LazyRsaKey {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        self.parsed()?.choose_scheme(offered)
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        self.parsed()?.public_key()
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::RSA
    }
}
