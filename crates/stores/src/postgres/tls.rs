//! TLS to the database, with the one provider of the program.

use std::error;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs as provider};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::{Security, Url};
use sekisho_certs::store::{Result, StoreError};
use sekisho_https::roots;

/// Returns what secures connections as the URL's `sslmode` says; reads the
/// authorities' file.
pub(super) fn tls(url: &Url) -> Result<MakeRustlsConnect> {
    let refused = |why: String| StoreError::Refused(format!("{url}: {why}").into());
    let roots = match (url.security, &url.root) {
        (Security::Disable | Security::Prefer, _) | (Security::Require, None) => None,
        (_, root) => Some(roots::load(root.as_deref(), "sslrootcert").map_err(refused)?),
    };
    let mut config = match (url.security, roots) {
        (Security::VerifyFull, Some(roots)) => roots::client(roots, None).map_err(refused)?,
        (_, roots) => lenient(roots).map_err(|error| refused(error.to_string()))?,
    };
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

/// Compares no names; without authorities, believes any certificate.
fn lenient(
    roots: Option<RootCertStore>,
) -> std::result::Result<ClientConfig, Box<dyn error::Error>> {
    let provider = Arc::new(provider::default_provider());
    let chain = roots.map(|roots| {
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()
    });
    let verifier = Lenient {
        chain: chain.transpose()?,
        algorithms: provider.signature_verification_algorithms,
    };
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions()?.dangerous();
    let builder = builder.with_custom_certificate_verifier(Arc::new(verifier));
    Ok(builder.with_no_client_auth())
}

/// Accepts a certificate whatever its name, or whoever signed it. The signature
/// of the handshake is checked all the same.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, Error> {
        let Some(verifier) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is compared last: all else held.
        match verifier.verify_server_cert(leaf, chain, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, leaf, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, leaf, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
