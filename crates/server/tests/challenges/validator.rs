//! CA that validates TLS-ALPN-01 as RFC 8737, section 3, wants.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sekisho_testkit::{TestCa, client};
use x509_parser::extensions::GeneralName;
use x509_parser::oid_registry::Oid;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Makes the configuration of such a CA.
pub(crate) fn validator(ca: &TestCa, tls12: bool) -> ClientConfig {
    let mut config = if tls12 {
        client::config_tls12(ca)
    } else {
        client::config(ca)
    };
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let verifier = Arc::new(Validator(default_provider()));
    config.dangerous().set_certificate_verifier(verifier);
    config
}

/// Verifier that takes any certificate whose key signs the handshake.
#[derive(Debug)]
struct Validator(CryptoProvider);

impl ServerCertVerifier for Validator {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // rustls verifies these only with certificates without unknown critical
        // extensions. The case of TLS 1.3 is the same key.
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Checks a challenge certificate; returns its key.
pub(crate) fn validate(
    certificate: &CertificateDer<'_>,
    name: &str,
    authorization: &str,
) -> Vec<u8> {
    let (_, certificate) = X509Certificate::from_der(certificate).unwrap();
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names, [GeneralName::DNSName(name)]);
    assert_eq!(certificate.issuer(), certificate.subject());
    let identifier = Oid::from(&[1, 3, 6, 1, 5, 5, 7, 1, 31]).unwrap();
    let identifier = certificate.get_extension_unique(&identifier).unwrap();
    let identifier = identifier.expect("an acmeIdentifier");
    assert!(identifier.critical);
    let digest = digest(&SHA256, authorization.as_bytes());
    assert_eq!(identifier.value, [&[4, 32], digest.as_ref()].concat());
    certificate.public_key().raw.to_vec()
}
