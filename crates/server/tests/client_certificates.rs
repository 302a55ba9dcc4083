//! Tests hosts that demand client certificates.

#![allow(clippy::unwrap_used)]

mod common;
#[path = "client_certificates/optional.rs"]
mod optional;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::metrics::counted;
use common::{Running, Scripted, Setup, host, resuming, start};
use rustls::{ClientConfig, HandshakeKind};
use sekisho_certs::store::{ChangePage, LogId, LogPosition, Subject, What};
use sekisho_certs::{
    ClientCa, Clock, FeedState, Follower as _, Found, HostPattern, OpenKey, TlsVersion,
};
use sekisho_server::tickets::Ring;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const NAMES: [&str; 5] = [
    "a.example",
    "same.example",
    "none.example",
    "other.example",
    "strict.example",
];

/// CAs of a server, its clients and strangers.
struct Cas {
    servers: TestCa,
    pair: Pair,
    clients: TestCa,
    strangers: TestCa,
}

impl Cas {
    fn new() -> Self {
        let servers = TestCa::new();
        Self {
            pair: servers.issue(&NAMES, Key::P256),
            servers,
            clients: TestCa::named("clients"),
            strangers: TestCa::named("strangers"),
        }
    }

    /// Makes a host whose clients `ca` verifies.
    fn host(&self, name: &str, ca: Option<&TestCa>) -> Found<OpenKey> {
        let mut found = host(name, &[(&self.pair, Key::P256)]);
        found.record.tls.client_ca = ca.map(|ca| {
            let ca = ClientCa::check(ca.root_pem().as_bytes());
            Arc::new(ca.expect("a CA"))
        });
        found
    }

    fn one_host(&self) -> Scripted {
        Scripted::new([self.host("a.example", Some(&self.clients))])
    }

    /// Makes the configuration of a client that resumes sessions.
    fn client(&self, tls12: bool, certificate: Option<&Pair>) -> Arc<ClientConfig> {
        let config = resuming(&self.servers, tls12);
        let Some(pair) = certificate else {
            return config;
        };
        let config = ClientConfig::clone(&config);
        Arc::new(client::with_certificate(config, pair))
    }
}

fn issue(ca: &TestCa) -> Pair {
    ca.issue(&["client.example"], Key::P256)
}

async fn connect(
    running: &Running,
    name: &str,
    config: &Arc<ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let socket = TcpStream::connect(running.address).await?;
    let name = name.to_owned().try_into().unwrap();
    TlsConnector::from(Arc::clone(config))
        .connect(name, socket)
        .await
}

/// Sends a request and reads the head of its answer. A client of TLS 1.3 learns only
/// then how its handshake ended.
async fn ask(stream: &mut TlsStream<TcpStream>, name: &str) -> io::Result<String> {
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await?;
    Ok(head)
}

async fn visit(
    running: &Running,
    name: &str,
    config: &Arc<ClientConfig>,
) -> io::Result<HandshakeKind> {
    let mut stream = connect(running, name, config).await?;
    let head = ask(&mut stream, name).await?;
    assert!(head.starts_with("http/1.1 308"), "{head}");
    Ok(stream.get_ref().1.handshake_kind().unwrap())
}

/// Applies the first change, of this host, to the lookup.
fn change(running: &Running, pattern: &str) {
    let log = LogId([7; 16]);
    running.lookup.restart(LogPosition {
        log,
        number: 0,
        mark: 0,
    });
    running.lookup.feed_is(FeedState::Healthy);
    running.lookup.apply(&ChangePage {
        log,
        last: 1,
        gap: false,
        mark_before: Some(0),
        mark_last: Some(0),
        changes: vec![sekisho_certs::store::Change {
            number: 1,
            subject: Subject::Host(HostPattern::parse(pattern).unwrap()),
            what: What::Put,
        }],
    });
}

#[tokio::test]
async fn only_clients_with_a_certificate_of_the_ca_are_served() {
    let cas = Cas::new();
    let running = start(cas.one_host(), &Setup::with_default("a.example"));
    let own = issue(&cas.clients);
    let wrong = issue(&cas.strangers);
    let expired =
        cas.clients
            .issue_valid(&["client.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    let mut refused = 0;
    for tls12 in [false, true] {
        let config = cas.client(tls12, Some(&own));
        let kind = visit(&running, "a.example", &config).await.unwrap();
        assert_eq!(kind, HandshakeKind::Full);
        for (certificate, alert) in [
            (None, "CertificateRequired"),
            (Some(&wrong), "UnknownCA"),
            (Some(&expired), "CertificateExpired"),
        ] {
            let config = cas.client(tls12, certificate);
            let error = visit(&running, "a.example", &config).await.unwrap_err();
            assert!(
                error.to_string().contains(alert),
                "{tls12} {alert}: {error}"
            );
            refused += 1;
            counted(&running, "client_certificate", refused).await;
        }
        // The default of the address has the same demands.
        let mut nameless = ClientConfig::clone(&cas.client(tls12, None));
        nameless.enable_sni = false;
        let error = visit(&running, "a.example", &Arc::new(nameless)).await;
        assert!(error.is_err());
        refused += 1;
    }
    counted(&running, "client_certificate", refused).await;
    counted(&running, "full", 2).await;
}

#[tokio::test]
async fn requests_reach_only_hosts_of_the_connections_client_ca() {
    let cas = Cas::new();
    let mut strict = cas.host("strict.example", Some(&cas.clients));
    strict.record.tls.min = TlsVersion::Tls13;
    let hosts = [
        cas.host("a.example", Some(&cas.clients)),
        cas.host("same.example", Some(&cas.clients)),
        cas.host("none.example", None),
        cas.host("other.example", Some(&cas.strangers)),
        strict,
    ];
    let running = start(Scripted::new(hosts), &Setup::default());
    let own = issue(&cas.clients);
    let with = cas.client(false, Some(&own));
    for (config, first, reached) in [
        (&with, "a.example", ["a.example", "same.example"]),
        (&with, "none.example", ["none.example", "none.example"]),
        (
            &with,
            "strict.example",
            ["strict.example", "strict.example"],
        ),
        (
            &cas.client(false, None),
            "none.example",
            ["none.example", "none.example"],
        ),
    ] {
        let mut stream = connect(&running, first, config).await.unwrap();
        for name in NAMES {
            let wanted = match reached.contains(&name) {
                true => "http/1.1 308",
                false => "http/1.1 421",
            };
            let head = ask(&mut stream, name).await.unwrap();
            assert!(head.starts_with(wanted), "{name} over {first}: {head}");
        }
    }
}

#[tokio::test]
async fn a_changed_client_ca_ends_connections_and_sessions() {
    for tls12 in [false, true] {
        let cas = Cas::new();
        let running = start(cas.one_host(), &Setup::default());
        let (old, new) = (issue(&cas.clients), issue(&cas.strangers));
        let before = cas.client(tls12, Some(&old));
        visit(&running, "a.example", &before).await.unwrap();
        let mut open = connect(&running, "a.example", &before).await.unwrap();
        ask(&mut open, "a.example").await.unwrap();
        assert_eq!(
            open.get_ref().1.handshake_kind(),
            Some(HandshakeKind::Resumed)
        );

        let changed = cas.host("a.example", Some(&cas.strangers));
        running.store.put(changed);
        change(&running, "a.example");
        let head = ask(&mut open, "a.example").await.unwrap();
        assert!(head.starts_with("http/1.1 421"), "{head}");
        assert!(head.contains("connection: close"), "{head}");
        let mut rest = Vec::new();
        open.read_to_end(&mut rest).await.unwrap();
        assert!(rest.is_empty());

        let error = visit(&running, "a.example", &before).await.unwrap_err();
        assert!(error.to_string().contains("UnknownCA"), "{error}");
        let after = cas.client(tls12, Some(&new));
        let kind = visit(&running, "a.example", &after).await.unwrap();
        assert_eq!(kind, HandshakeKind::Full);
    }
}

#[tokio::test]
async fn sessions_are_bound_to_the_client_ca() {
    let cas = Cas::new();
    let ring = Arc::new(Ring::random());
    let serve = |ca| {
        let setup = Setup {
            ring: Arc::clone(&ring),
            ..Setup::default()
        };
        start(Scripted::new([cas.host("a.example", ca)]), &setup)
    };
    let (one, same) = (serve(Some(&cas.clients)), serve(Some(&cas.clients)));
    let (none, other) = (serve(None), serve(Some(&cas.strangers)));
    let own = issue(&cas.clients);
    for tls12 in [false, true] {
        let config = cas.client(tls12, Some(&own));
        let kind = visit(&one, "a.example", &config).await.unwrap();
        assert_eq!(kind, HandshakeKind::Full);
        for server in [&one, &same] {
            let kind = visit(server, "a.example", &config).await.unwrap();
            assert_eq!(kind, HandshakeKind::Resumed, "{tls12}");
        }
        let error = visit(&other, "a.example", &config).await.unwrap_err();
        assert!(error.to_string().contains("UnknownCA"), "{error}");
        // A session without a certificate is none where one is demanded.
        let config = cas.client(tls12, None);
        let kind = visit(&none, "a.example", &config).await.unwrap();
        assert_eq!(kind, HandshakeKind::Full);
        let error = visit(&one, "a.example", &config).await.unwrap_err();
        assert!(error.to_string().contains("CertificateRequired"), "{error}");
    }
}

/// rustls takes the chain from the ticket as it is.
#[tokio::test]
async fn a_session_ends_with_its_client_certificate() {
    let cas = Cas::new();
    let clock = Arc::new(AtomicI64::new(0));
    let setup = Setup {
        clock: Clock::Manual(Arc::clone(&clock)),
        ..Setup::default()
    };
    let running = start(cas.one_host(), &setup);
    let own = cas
        .clients
        .issue_valid(&["client.example"], Key::P256, (2020, 1, 1), (2100, 1, 1));
    let year = |year: i64| (year - 1970) * 31_556_952_000;
    for (tls12, refused) in [(false, 1), (true, 2)] {
        clock.store(year(2099), Ordering::SeqCst);
        let config = cas.client(tls12, Some(&own));
        let mut kinds = Vec::new();
        for _ in 0..2 {
            kinds.push(visit(&running, "a.example", &config).await.unwrap());
        }
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed]);
        clock.store(year(2101), Ordering::SeqCst);
        let error = visit(&running, "a.example", &config).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        counted(&running, "client_certificate", refused).await;
    }
}

/// The client would send the ticket in a ClientHello that is too long.
#[tokio::test]
async fn a_session_with_a_long_chain_gets_no_ticket() {
    let cas = Cas::new();
    let running = start(cas.one_host(), &Setup::default());
    for tls12 in [false, true] {
        let mut long = issue(&cas.clients);
        let padding = TestCa::new().root();
        let fill = 9000 / padding.len();
        long.chain
            .extend(std::iter::repeat_n(padding.clone(), fill));
        let config = cas.client(tls12, Some(&long));
        for _ in 0..2 {
            let kind = visit(&running, "a.example", &config).await.unwrap();
            assert_eq!(kind, HandshakeKind::Full);
        }
        let fill = 70_000 / padding.len();
        long.chain.extend(std::iter::repeat_n(padding, fill));
        let config = cas.client(tls12, Some(&long));
        let error = visit(&running, "a.example", &config).await.unwrap_err();
        assert!(!error.to_string().contains("InternalError"), "{error}");
    }
}

/// Any client can send issuers, and the order in which they sign each other is tried.
#[tokio::test]
async fn three_issuers_of_a_client_are_read() {
    let cas = Cas::new();
    let running = start(cas.one_host(), &Setup::default());
    let padding = TestCa::named("padding").root();
    for (before, is_read) in [(2, true), (3, false)] {
        let mut pair = issue(&cas.clients);
        let filled = std::iter::repeat_n(padding.clone(), before);
        pair.chain.splice(1..1, filled);
        let visited = visit(&running, "a.example", &cas.client(false, Some(&pair))).await;
        match visited {
            Ok(_) => assert!(is_read),
            Err(error) => assert!(
                !is_read && error.to_string().contains("UnknownCA"),
                "{error}"
            ),
        }
    }
}
