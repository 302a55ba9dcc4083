//! Cryptography of clients' handshakes: that of aws-lc by rustls, with one step less in
//! the key schedule of TLS 1.3, and with public random numbers drawn in batches.
//!
//! A handshake extracts three secrets and derives eight from them (RFC 8446, section
//! 7.1). Through rustls, aws-lc-rs keeps what a secret is extracted from, and extracts
//! it again for each secret derived from it. Here it is extracted once (decision 20).

mod nonces;

use std::sync::{Arc, LazyLock};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::hmac::Tag;
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock};
use rustls::crypto::{CryptoProvider, GetRandomFailed, SecureRandom};
use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

/// Returns the provider of the handshakes with clients.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| {
        let mut provider = default_provider();
        for suite in &mut provider.cipher_suites {
            *suite = extracting_once(*suite);
        }
        provider.secure_random = &nonces::Nonces;
        Arc::new(provider)
    });
    Arc::clone(&PROVIDER)
}

/// Fills `into` with random bytes that hide nothing: they may wait in memory before.
///
/// # Errors
/// If there is no randomness, which aws-lc rules out.
pub(crate) fn public_random(into: &mut [u8]) -> Result<(), GetRandomFailed> {
    nonces::Nonces.fill(into)
}

/// Returns a suite of TLS 1.3 that extracts each secret once; others unchanged. The few
/// suites are made once and live as long as the process.
fn extracting_once(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let SupportedCipherSuite::Tls13(suite) = suite else {
        return suite;
    };
    let hkdf_provider = Box::leak(Box::new(ExtractOnce {
        hkdf: suite.hkdf_provider,
        hash_len: suite.common.hash_provider.output_len(),
    }));
    SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { ..suite.common },
        hkdf_provider,
        ..*suite
    })))
}

/// HKDF whose extraction is an HMAC, done at once.
struct ExtractOnce {
    hkdf: &'static dyn Hkdf,
    /// Bytes of the hash, at most 64.
    hash_len: usize,
}

impl Hkdf for ExtractOnce {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        self.extract_from_secret(salt, &ZEROES[..self.hash_len])
    }

    /// HKDF-Extract(salt, secret) is HMAC(salt, secret) (RFC 5869, section 2.2). In TLS 1.3
    /// a salt is a derived secret, of the hash's length.
    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        let salt = OkmBlock::new(salt.unwrap_or(&ZEROES[..self.hash_len]));
        let extracted = self.hkdf.hmac_sign(&salt, secret);
        self.hkdf
            .expander_for_okm(&OkmBlock::new(extracted.as_ref()))
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        self.hkdf.expander_for_okm(okm)
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        self.hkdf.hmac_sign(key, message)
    }
}

/// Salt and secret where there is none, in the hash's length.
const ZEROES: [u8; OkmBlock::MAX_LEN] = [0; OkmBlock::MAX_LEN];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_suites_derive_the_secrets_that_rustls_derives() {
        let (ours, theirs) = (provider(), default_provider());
        assert_eq!(ours.cipher_suites.len(), theirs.cipher_suites.len());
        let mut compared = 0;
        for (ours, theirs) in ours.cipher_suites.iter().zip(&theirs.cipher_suites) {
            assert_eq!(ours.suite(), theirs.suite());
            if let (Some(ours), Some(theirs)) = (ours.tls13(), theirs.tls13()) {
                let length = theirs.common.hash_provider.output_len();
                let salt = vec![7; length];
                for salt in [None, Some(&salt[..])] {
                    let [ours, theirs] = [ours, theirs].map(|suite| secrets(suite, salt));
                    assert_eq!(ours, theirs);
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 6);
    }

    /// Returns what the suite derives with this salt from a secret and from none.
    fn secrets(suite: &Tls13CipherSuite, salt: Option<&[u8]>) -> Vec<u8> {
        let hkdf = suite.hkdf_provider;
        let mut secrets = Vec::new();
        for expander in [
            hkdf.extract_from_secret(salt, b"an exchanged secret"),
            hkdf.extract_from_zero_ikm(salt),
        ] {
            let block = expander.expand_block(&[b"la", b"bel"]);
            secrets.extend_from_slice(block.as_ref());
            secrets.extend_from_slice(hkdf.hmac_sign(&block, b"message").as_ref());
            let derived = hkdf.expander_for_okm(&block).expand_block(&[b"label"]);
            secrets.extend_from_slice(derived.as_ref());
        }
        secrets
    }
}
