//! Client certificates that are passed on to upstreams (RFC 9440).

use std::sync::Arc;

use data_encoding::BASE64;
use rustls::{ClientConfig, HandshakeKind};
use sekisho_certs::ClientCa;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::common::resuming;
use crate::http2::empty;
use crate::world::{HOST, OK, Upstream, Wire, World, field, speak_http2, status};

/// World whose host passes client certificates on in `Client-Cert`.
struct Certified {
    world: World,
    upstream: Upstream,
    own: Pair,
}

impl Certified {
    /// Starts a server whose host demands certificates of a CA.
    async fn demanding() -> Self {
        Self::start(true).await
    }

    async fn start(demands: bool) -> Self {
        let upstream = Upstream::bind().await;
        let site = format!(
            r#"{{"upstream": {{"servers": ["http://{}"], "underscores": true}}}}"#,
            upstream.address()
        );
        let clients = TestCa::named("clients");
        let ca = ClientCa::check(clients.root_pem().as_bytes()).unwrap();
        let world = World::demanding(demands.then(|| Arc::new(ca)).as_ref(), &[(HOST, &site)]);
        Self {
            world,
            upstream,
            own: clients.issue(&["client.example"], Key::P256),
        }
    }

    /// Makes the configuration of a client that has a certificate and resumes sessions.
    fn client(&self, tls12: bool) -> Arc<ClientConfig> {
        let config = ClientConfig::clone(&resuming(&self.world.ca, tls12));
        Arc::new(client::with_certificate(config, &self.own))
    }

    /// Connects, and returns what the upstream gets of this request's fields.
    async fn passed_on(&self, config: &Arc<ClientConfig>, fields: &str) -> (HandshakeKind, String) {
        let mut client = Wire::new(connect(&self.world, config).await);
        client
            .send(format!(
                "GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n{fields}\r\n"
            ))
            .await;
        let mut server = self.upstream.accept().await;
        let head = server.head().await;
        server.send(OK).await;
        assert_eq!(status(&client.answer().await.0), 200);
        client.closed().await;
        (client.kind(), head)
    }

    /// Returns the value of the field for the client's own certificate.
    fn value(&self) -> String {
        format!(":{}:", BASE64.encode(&self.own.chain[0]))
    }
}

async fn connect(world: &World, config: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let socket = TcpStream::connect(world.running.address).await.unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    let name = HOST.try_into().unwrap();
    connector.connect(name, socket).await.unwrap()
}

/// Fields that would say the same, were they passed on.
const FORGED: &str = "Client-Cert: :AAAA:\r\nclient_cert: :AAAA:\r\nCLIENT-CERT: :BBBB:\r\n";

#[tokio::test]
async fn a_certificate_reaches_the_upstream_on_resumed_connections_too() {
    for tls12 in [false, true] {
        let certified = Certified::demanding().await;
        let config = certified.client(tls12);
        let expected = certified.value();
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            for fields in ["", FORGED] {
                let (seen, head) = certified.passed_on(&config, fields).await;
                if fields.is_empty() {
                    assert_eq!(seen, kind, "TLS 1.2: {tls12}");
                }
                let passed = field(&head, "client-cert");
                assert_eq!(passed.as_deref(), Some(&*expected), "{seen:?}");
                assert_eq!(field(&head, "client_cert"), None);
            }
        }
    }
}

#[tokio::test]
async fn a_forged_certificate_is_removed_where_none_is_demanded() {
    let certified = Certified::start(false).await;
    // The client has a certificate, for which this host does not ask.
    let config = certified.client(false);
    for fields in ["", FORGED] {
        let (_, head) = certified.passed_on(&config, fields).await;
        assert_eq!(field(&head, "client-cert"), None, "{head}");
        assert_eq!(field(&head, "client_cert"), None, "{head}");
    }
}

#[tokio::test]
async fn a_certificate_reaches_the_upstream_over_http2() {
    let certified = Certified::demanding().await;
    let mut config = ClientConfig::clone(&certified.client(false));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = connect(&certified.world, &Arc::new(config)).await;
    let mut client = speak_http2(stream).await;
    let request = http::Request::get(format!("https://{HOST}/"))
        .header("client-cert", ":AAAA:")
        .header("Client_Cert", ":AAAA:")
        .body(empty())
        .unwrap();
    let answer = client.send_request(request);
    let serving = async {
        let mut server = certified.upstream.accept().await;
        let head = server.head().await;
        server.send(OK).await;
        head
    };
    let (answer, head) = tokio::join!(answer, serving);
    assert_eq!(answer.unwrap().status(), 200);
    assert_eq!(field(&head, "client-cert"), Some(certified.value()));
    assert_eq!(field(&head, "client_cert"), None);
}
