//! TLS of the client: one cipher suite and one group, for the same work on both
//! servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::ValueEnum;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    DigitallySignedStruct, RootCertStore, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion,
};

/// TLS parameters of a client, and how it verifies the answer.
#[derive(Clone, Debug)]
pub struct Offer {
    pub version: Version,
    pub group: Group,
    pub trust: Trust,
    /// Number of hosts whose tickets are kept; None for full handshakes only.
    pub resume: Option<usize>,
}

impl Offer {
    pub fn config(&self) -> Result<ClientConfig> {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: self.version.suites(),
            kx_groups: self.groups(),
            ..aws_lc_rs::default_provider()
        });
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[self.version.protocol()])?;
        let builder = match &self.trust {
            Trust::Authority(file) => builder.with_root_certificates(roots(file)?),
            Trust::Anyone => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Unverified(provider))),
        };
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = match self.resume {
            // rustls counts tickets and keeps up to eight per host.
            Some(hosts) => Resumption::in_memory_sessions(hosts * TICKETS_PER_HOST),
            None => Resumption::disabled(),
        };
        Ok(config)
    }

    /// Returns the groups to offer. TLS 1.2 has one list for key exchange and
    /// for curves of certificates. A server might refuse a P-256 certificate to
    /// a client that offers X25519 alone.
    fn groups(&self) -> Vec<&'static dyn SupportedKxGroup> {
        match (self.version, self.group) {
            (Version::Tls12, Group::P256) | (Version::Tls13, _) => vec![self.group.kx()],
            (Version::Tls12, _) => vec![self.group.kx(), kx_group::SECP256R1],
        }
    }
}

#[derive(Clone, Debug)]
pub enum Trust {
    /// Chain and name are verified with the certificates in this file.
    Authority(PathBuf),
    /// Nothing is verified: a cheap client does not limit the throughput.
    Anyone,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Version {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl Version {
    fn protocol(self) -> &'static SupportedProtocolVersion {
        match self {
            Self::Tls12 => &rustls::version::TLS12,
            Self::Tls13 => &rustls::version::TLS13,
        }
    }

    fn suites(self) -> Vec<SupportedCipherSuite> {
        match self {
            Self::Tls12 => vec![
                cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
                cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            ],
            Self::Tls13 => vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum Group {
    X25519,
    X25519mlkem768,
    P256,
}

impl Group {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::X25519 => "x25519",
            Self::X25519mlkem768 => "x25519mlkem768",
            Self::P256 => "p256",
        }
    }

    pub fn kx(self) -> &'static dyn SupportedKxGroup {
        match self {
            Self::X25519 => kx_group::X25519,
            Self::X25519mlkem768 => kx_group::X25519MLKEM768,
            Self::P256 => kx_group::SECP256R1,
        }
    }
}

fn roots(file: &Path) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    for certificate in certificates {
        roots.add(certificate.with_context(|| format!("bad PEM in {}", file.display()))?)?;
    }
    Ok(roots)
}

#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
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
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

const TICKETS_PER_HOST: usize = 8;
