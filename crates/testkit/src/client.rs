//! TLS and HTTP clients that verify like a browser.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::ca::{Pair, TestCa};

/// Makes the configuration of a client that trusts only this CA, without
/// resumption.
///
/// # Panics
/// If the provider lacks the default versions.
#[must_use]
pub fn config(ca: &TestCa) -> ClientConfig {
    config_for(ca.root(), &[&TLS13, &TLS12])
}

/// Makes a configuration for TLS 1.2 alone.
#[must_use]
pub fn config_tls12(ca: &TestCa) -> ClientConfig {
    config_for(ca.root(), &[&TLS12])
}

/// Makes a configuration as [`config`] does, for another CA by its root, PEM.
///
/// # Panics
/// If it is no certificate.
#[must_use]
pub fn config_of(root: &str) -> ClientConfig {
    let root = CertificateDer::from_pem_slice(root.as_bytes()).expect("a certificate");
    config_for(root, &[&TLS13, &TLS12])
}

/// Adds a client certificate, which is sent to every server that asks for one.
///
/// # Panics
/// If the key is none.
#[must_use]
pub fn with_certificate(mut config: ClientConfig, pair: &Pair) -> ClientConfig {
    let provider = config.crypto_provider();
    let certified = CertifiedKey::from_der(pair.chain.clone(), pair.key_der(), provider);
    let certified = certified.expect("a certificate with its key");
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
    config
}

/// Connects and finishes the handshake for `name`.
///
/// # Errors
/// The handshake's error; its text includes an alert of the server.
///
/// # Panics
/// If `name` is no server name.
pub async fn connect(
    address: SocketAddr,
    name: &str,
    config: ClientConfig,
) -> io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(address).await?;
    handshake(socket, name, config).await
}

/// Finishes the handshake for `name` on a connection.
///
/// # Errors
/// As [`connect`].
///
/// # Panics
/// As [`connect`].
pub async fn handshake(
    socket: TcpStream,
    name: &str,
    config: ClientConfig,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(name.to_owned()).expect("a server name");
    TlsConnector::from(Arc::new(config))
        .connect(name, socket)
        .await
}

/// Fetches `path` over HTTP/1.1; returns the whole answer, head and body.
///
/// # Errors
/// As [`connect`], or the error of the exchange.
pub async fn fetch(
    address: SocketAddr,
    name: &str,
    path: &str,
    config: ClientConfig,
) -> io::Result<String> {
    send(address, name, ("GET", path, ""), config).await
}

/// Sends a request of this method, target and body, as [`fetch`] does.
///
/// # Errors
/// As [`fetch`].
pub async fn send(
    address: SocketAddr,
    name: &str,
    (method, target, body): (&str, &str, &str),
    config: ClientConfig,
) -> io::Result<String> {
    let mut stream = connect(address, name, config).await?;
    let length = match body.len() {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    let request = format!(
        "{method} {target} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: testkit\r\n{length}Connection: close\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn config_for(
    root: CertificateDer<'static>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(root).expect("the root is a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("the provider has these versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config
}
