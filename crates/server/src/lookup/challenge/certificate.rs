//! Challenge certificates (RFC 8737, section 3).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rcgen::{
    CertificateParams, CustomExtension, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256,
};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::sign::any_ecdsa_type;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::sign::{CertifiedKey, SigningKey, SingleCertAndKey};
use sekisho_certs::{HostName, KeyAuthorization, TlsVersion};

use crate::lookup::virtual_host;
use crate::tls::hello::ACME_TLS;

/// Maker of challenge certificates, all of one key: a CA compares their names and
/// their extension, and trusts no signature of theirs.
pub(super) struct Certificates {
    key: KeyPair,
    signing: Arc<dyn SigningKey>,
    base: ServerConfig,
}

impl Certificates {
    pub(super) fn new() -> Self {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256);
        let key = key.expect("the provider makes P-256 keys");
        let der = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let signing = any_ecdsa_type(&der).expect("the provider takes its own keys");
        let mut base = virtual_host::base(TlsVersion::Tls12, None);
        base.alpn_protocols = vec![ACME_TLS.to_vec()];
        (base.send_tls13_tickets, base.max_tls13_tickets) = (0, 0);
        Self { key, signing, base }
    }

    /// Makes the certificate that answers a challenge for `name`, which costs one
    /// signature.
    pub(super) fn config(&self, name: &HostName, answer: &KeyAuthorization) -> Arc<ServerConfig> {
        let digest = digest(&SHA256, answer.as_str().as_bytes());
        let mut params = CertificateParams::new([name.to_string()]).expect("A-labels are ASCII");
        params.distinguished_name = DistinguishedName::new();
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
        let certificate = params.self_signed(&self.key).expect("the key signs");
        let chain = vec![certificate.der().clone()];
        let certified = CertifiedKey::new(chain, Arc::clone(&self.signing));
        let mut config = self.base.clone();
        config.cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        Arc::new(config)
    }
}
