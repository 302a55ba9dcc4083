//! TLS to the database, with the one provider of the program.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aws_lc_rs::digest::{self, Algorithm, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use super::url::{Security, Url};
use sekisho_certs::der::{SEQUENCE, element};
use sekisho_certs::store::{BoxFuture, Result, StoreError};

/// Makes the TLS side of a connection.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// As the URL's `sslmode` says; reads the authorities' file.
    pub(super) fn new(url: &Url) -> Result<Self> {
        let provider = Arc::new(provider::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(url, &error.to_string()))?;
        let verifier = verifier(url, &provider)?;
        let mut config = match (url.security, verifier) {
            (Security::VerifyFull, Some(full)) => builder.with_webpki_verifier(full),
            (_, inner) => {
                let lenient = Lenient { inner, provider };
                let dangerous = builder.dangerous();
                dangerous.with_custom_certificate_verifier(Arc::new(lenient))
            }
        }
        .with_no_client_auth();
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// None where any certificate will do.
fn verifier(
    url: &Url,
    provider: &Arc<CryptoProvider>,
) -> Result<Option<Arc<WebPkiServerVerifier>>> {
    let files = match (url.security, &url.root) {
        (Security::Disable | Security::Prefer, _) | (Security::Require, None) => return Ok(None),
        (_, Some(root)) => vec![root.as_path()],
        (_, None) => SYSTEM.map(Path::new).to_vec(),
    };
    let mut roots = RootCertStore::empty();
    for file in files
        .iter()
        .filter(|file| file.exists() || files.len() == 1)
    {
        let fault = |what: &str| unusable(url, &format!("{}: {what}", file.display()));
        let read =
            CertificateDer::pem_file_iter(file).map_err(|error| fault(&error.to_string()))?;
        for der in read {
            let der = der.map_err(|error| fault(&error.to_string()))?;
            // A system's bundle may hold some that are not understood.
            let _ = roots.add(der);
        }
    }
    if roots.is_empty() {
        let looked: Vec<_> = files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let text = format!(
            "there is no authority to trust in {}; name a file with sslrootcert",
            looked.join(", ")
        );
        return Err(unusable(url, &text));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map(Some)
        .map_err(|error| unusable(url, &error.to_string()))
}

fn unusable(url: &Url, what: &str) -> StoreError {
    StoreError::Refused(format!("{url}: {what}").into())
}

/// Accepts a certificate whatever its name, or whoever signed it; what a
/// handshake signs is checked all the same.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        // The name is compared last: all else held.
        match inner.verify_server_cert(leaf, chain, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
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
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, leaf, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake {
            config: Arc::clone(&self.0),
            host: host.to_owned(),
        })
    }
}

/// One handshake to come.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let connector = TlsConnector::from(self.config);
            Ok(Encrypted(connector.connect(name, stream).await?))
        })
    }
}

/// The encrypted stream.
pub(super) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    /// Binds the password's proof to this server's certificate, so that nobody
    /// between can pass it on (RFC 5929, section 4).
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let hash = certificates.and_then(|chain| {
            let leaf = chain.first()?;
            Some(digest(signed_with(leaf)?, leaf).as_ref().to_vec())
        });
        hash.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// The hash of a certificate's signature; SHA-256 stands for older ones.
fn signed_with(certificate: &[u8]) -> Option<&'static Algorithm> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(certificate, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (oid, _) = element(algorithm, OID)?;
    match oid {
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04"
        | b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05"
        | b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b"
        | b"\x2a\x86\x48\xce\x3d\x04\x01"
        | b"\x2a\x86\x48\xce\x3d\x04\x03\x02" => Some(&digest::SHA256),
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c" | b"\x2a\x86\x48\xce\x3d\x04\x03\x03" => {
            Some(&digest::SHA384)
        }
        b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d" | b"\x2a\x86\x48\xce\x3d\x04\x03\x04" => {
            Some(&digest::SHA512)
        }
        _ => None,
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

const OID: u8 = 0x06;
/// Where Debian and Red Hat keep their authorities.
const SYSTEM: [&str; 2] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
];
