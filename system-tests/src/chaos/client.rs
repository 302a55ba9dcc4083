//! Client that accepts every certificate and reports which one it got.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{AlertDescription, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::authority;
use super::judge::Seen;

pub(crate) struct Client(TlsConnector);

impl Client {
    pub(crate) fn new() -> Result<Self> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Witness(provider)))
            .with_no_client_auth();
        // A resumed handshake shows no certificate.
        config.resumption = Resumption::disabled();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Connects, requests the host's page, and returns the result.
    pub(crate) async fn visit(&self, server: SocketAddr, host: &str) -> Seen {
        let stream = match timeout(DEADLINE, self.connect(server, host)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) if is_unknown(&error) => return Seen::Unknown,
            Ok(Err(error)) => return Seen::Failed(error.to_string()),
            Err(_) => return Seen::Failed(format!("no handshake within {DEADLINE:?}")),
        };
        match certificate(&stream) {
            Ok((of, generation)) => Seen::Certificate {
                host: of,
                generation,
                unanswered: answered(stream, host).await.err().map(|e| format!("{e:#}")),
            },
            Err(error) => Seen::Certificate {
                host: format!("nobody ({error:#})"),
                generation: 0,
                unanswered: None,
            },
        }
    }

    /// Requests a large file, reports when the answer has begun, and reads all
    /// of it.
    pub(crate) async fn download(
        &self,
        server: SocketAddr,
        host: &str,
        begun: tokio::sync::oneshot::Sender<()>,
        go_on: tokio::sync::oneshot::Receiver<()>,
    ) -> Result<()> {
        let mut stream = self.connect(server, host).await?;
        stream.write_all(&request(host)).await?;
        let mut buffer = vec![0; 16 * 1024];
        let read = stream.read(&mut buffer).await?;
        let head = String::from_utf8_lossy(&buffer[..read]).into_owned();
        anyhow::ensure!(head.starts_with("HTTP/1.1 200"), "{}", first_line(&head));
        let (head, body) = head.split_once("\r\n\r\n").context("half a head")?;
        let wanted = length(head).context("no Content-Length")?;
        // The receiver may have been dropped.
        let _ = begun.send(());
        let _ = go_on.await;
        let mut missing = wanted - body.len();
        while missing > 0 {
            let read = stream.read(&mut buffer).await?;
            anyhow::ensure!(read > 0, "{missing} of {wanted} bytes are missing");
            missing = missing.saturating_sub(read);
        }
        Ok(())
    }

    async fn connect(&self, server: SocketAddr, host: &str) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let socket = TcpStream::connect(server).await?;
        // Resets the connection on close. The server has ended it by then. A
        // reset leaves no TIME_WAIT, which would use up the ports.
        socket.set_zero_linger()?;
        socket.set_nodelay(true)?;
        self.0.connect(name, socket).await
    }
}

/// Requests the host's page: a redirect that names the host.
async fn answered(mut stream: TlsStream<TcpStream>, host: &str) -> Result<()> {
    let ask = async {
        stream.write_all(&request(host)).await?;
        let mut answer = Vec::new();
        (&mut stream)
            .take(MAX_ANSWER)
            .read_to_end(&mut answer)
            .await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(DEADLINE, ask)
        .await
        .context("no answer in time")??;
    let answer = String::from_utf8_lossy(&answer);
    anyhow::ensure!(
        answer.starts_with("HTTP/1.1 308") && answer.contains(&format!("/of/{host}")),
        "{:?}",
        first_line(&answer)
    );
    Ok(())
}

fn request(host: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").into_bytes()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

fn length(head: &str) -> Option<usize> {
    let mut fields = head.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    value.trim().parse().ok()
}

fn certificate(stream: &TlsStream<TcpStream>) -> Result<(String, u64)> {
    let chain = stream.get_ref().1.peer_certificates();
    let leaf = chain.and_then(<[_]>::first).context("no certificate")?;
    authority::read(leaf)
}

fn is_unknown(error: &io::Error) -> bool {
    let told = error.get_ref().and_then(|error| error.downcast_ref());
    matches!(
        told,
        Some(rustls::Error::AlertReceived(
            AlertDescription::UnrecognisedName
        ))
    )
}

/// Verifier that accepts every chain, but checks the signature of the leaf's
/// key.
#[derive(Debug)]
struct Witness(Arc<CryptoProvider>);

impl ServerCertVerifier for Witness {
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
        Err(rustls::Error::General("TLS 1.2 is not offered".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, leaf, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Longer than the server's handshake timeout.
const DEADLINE: Duration = Duration::from_secs(12);
const MAX_ANSWER: u64 = 16 * 1024;
