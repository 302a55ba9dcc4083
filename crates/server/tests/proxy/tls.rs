//! Upstreams over TLS and Unix sockets.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use sekisho_testkit::{Key, Pair, TestCa};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::common::LIMITS;
use crate::world::{HOST, OK, Wire, World, field, patiently, status};

pub(crate) const NAME: &str = "up.example";

/// Upstream that speaks TLS.
pub(crate) struct Secure {
    pub(crate) listener: TcpListener,
    pub(crate) config: Arc<ServerConfig>,
}

impl Secure {
    /// Listens with this certificate; `clients` signs those of clients.
    pub(crate) async fn bind(pair: &Pair, clients: Option<&TestCa>, alpn: &[u8]) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(ca.root()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let mut config = builder
            .with_single_cert(pair.chain.clone(), pair.key_der())
            .unwrap();
        config.alpn_protocols = vec![alpn.to_vec()];
        Self {
            listener: TcpListener::bind(("127.0.0.1", 0)).await.unwrap(),
            config: Arc::new(config),
        }
    }

    /// Answers all requests with the same bytes.
    pub(crate) fn answering(self, answer: &'static str) {
        tokio::spawn(async move {
            loop {
                let (socket, _) = self.listener.accept().await.unwrap();
                let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else {
                        return;
                    };
                    let mut wire = Wire::new(stream);
                    while wire.next_head().await.is_some() {
                        wire.send(answer).await;
                    }
                });
            }
        });
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.listener.local_addr().unwrap())
    }

    /// Returns whether no connection waits.
    pub(crate) fn is_alone(&self) -> bool {
        use futures_util::FutureExt as _;
        self.listener.accept().now_or_never().is_none()
    }

    /// Accepts a connection; None if its handshake fails.
    pub(crate) async fn accept(&self) -> Option<TlsStream<TcpStream>> {
        let (socket, _) = patiently(self.listener.accept()).await.unwrap();
        let acceptor = TlsAcceptor::from(Arc::clone(&self.config));
        patiently(acceptor.accept(socket)).await.ok()
    }

    /// Answers one request, and returns its head and the server name.
    pub(crate) async fn serve(&self) -> Option<(String, String)> {
        let stream = self.accept().await?;
        let name = stream.get_ref().1.server_name()?.to_owned();
        let mut wire = Wire::new(stream);
        let head = wire.next_head().await?;
        wire.send(OK).await;
        Some((head, name))
    }

    pub(crate) fn site(&self, tls: &str) -> String {
        let address = self.listener.local_addr().unwrap();
        format!(r#"{{"upstream": {{"servers": ["https://{address}"], "tls": {{{tls}}}}}}}"#)
    }
}

/// Returns a text as JSON.
pub(crate) fn json(text: &str) -> String {
    format!("\"{}\"", text.replace('\n', "\\n"))
}

async fn get(world: &World) -> u16 {
    let mut client = world.connect().await;
    client
        .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
        .await;
    status(&client.answer().await.0)
}

#[tokio::test]
async fn an_upstream_is_verified_by_the_name_and_ca_of_the_site() {
    let ca = TestCa::new();
    let upstream = Secure::bind(&ca.issue(&[NAME], Key::P256), None, b"http/1.1").await;
    let pem = json(&ca.root_pem());
    let other = json(&TestCa::new().root_pem());
    for (tls, wanted) in [
        (format!(r#""name": "{NAME}", "ca": {pem}"#), 200),
        (format!(r#""name": "other.example", "ca": {pem}"#), 502),
        (format!(r#""name": "{NAME}", "ca": {other}"#), 502),
        (format!(r#""name": "{NAME}""#), 502),
        (format!(r#""ca": {pem}"#), 502),
    ] {
        let world = World::new(&upstream.site(&tls));
        let (got, served) = tokio::join!(get(&world), upstream.serve());
        assert_eq!(got, wanted, "{tls}");
        if wanted == 200 {
            let (head, name) = served.unwrap();
            assert_eq!(name, NAME);
            assert_eq!(field(&head, "host").as_deref(), Some(HOST));
        }
    }
}

#[tokio::test]
async fn sites_with_different_identities_share_no_connection() {
    let ca = TestCa::new();
    let upstream = Secure::bind(&ca.issue(&[NAME], Key::P256), None, b"http/1.1").await;
    let pem = json(&ca.root_pem());
    let good = upstream.site(&format!(r#""name": "{NAME}", "ca": {pem}"#));
    let bad = upstream.site(&format!(r#""name": "other.example", "ca": {pem}"#));
    let limits = sekisho_server::Limits {
        workers: 1,
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &good), ("b.example", &bad)]);
    let mut client = world.connect().await;
    client
        .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
        .await;
    let mut server = Wire::new(upstream.accept().await.unwrap());
    server.head().await;
    server.send(OK).await;
    client.answer().await;
    client
        .send("GET / HTTP/1.1\r\nHost: b.example\r\n\r\n")
        .await;
    assert!(upstream.accept().await.is_none());
    assert_eq!(status(&client.answer().await.0), 502);
    // The first one is still there.
    client
        .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
        .await;
    server.head().await;
}

#[tokio::test]
async fn a_site_has_a_client_certificate_of_its_tenant() {
    let ca = TestCa::new();
    let pair = ca.issue(&[NAME], Key::P256);
    let pem = json(&ca.root_pem());
    for (holder, wanted) in [(HOST, 200), ("absent.example", 502)] {
        // The hosts' own certificates come from the world's CA.
        let clients = TestCa::new();
        let upstream = Secure::bind(&pair, Some(&clients), b"http/1.1").await;
        let tls = format!(r#""name": "{NAME}", "ca": {pem}, "certificate_of": "{holder}""#);
        let world = World::of_ca(clients, LIMITS, &[(HOST, &upstream.site(&tls))]);
        let mut serving = std::pin::pin!(upstream.serve());
        let mut getting = std::pin::pin!(get(&world));
        let (got, served) = tokio::select! {
            served = &mut serving => (getting.await, served.is_some()),
            got = &mut getting => (got, got == 200 && serving.await.is_some()),
        };
        assert_eq!((got, served), (wanted, wanted == 200), "{holder}");
    }
}

#[tokio::test]
async fn an_upstream_chooses_http2_by_alpn() {
    let ca = TestCa::new();
    let upstream = Secure::bind(&ca.issue(&[NAME], Key::P256), None, b"h2").await;
    let tls = format!(r#""name": "{NAME}", "ca": {}"#, json(&ca.root_pem()));
    let world = World::new(&upstream.site(&tls));
    tokio::spawn(async move {
        let stream = upstream.accept().await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let service = hyper::service::service_fn(async |_| {
            Ok::<_, std::convert::Infallible>(http::Response::new(crate::http2::empty()))
        });
        let exec = hyper_util::rt::TokioExecutor::new();
        let io = hyper_util::rt::TokioIo::new(stream);
        let server = hyper::server::conn::http2::Builder::new(exec);
        server.serve_connection(io, service).await.unwrap();
    });
    assert_eq!(get(&world).await, 200);
}

#[tokio::test]
async fn an_upstream_listens_on_a_unix_socket() {
    let folder = tempfile::tempdir_in("/tmp").unwrap();
    let path = folder.path().join("app.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let world = World::new(&format!(r#"{{"upstream": "unix:{}"}}"#, path.display()));
    let serving = async {
        let (socket, _) = patiently(listener.accept()).await.unwrap();
        let mut wire = Wire::new(socket);
        let head = wire.head().await;
        assert_eq!(field(&head, "host").as_deref(), Some(HOST));
        wire.send(OK).await;
    };
    let (got, ()) = tokio::join!(get(&world), serving);
    assert_eq!(got, 200);
}
