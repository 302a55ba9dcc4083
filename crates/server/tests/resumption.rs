//! Tests session tickets: across restarts and servers, and bound to their host.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{Running, Scripted, Setup, host, resuming, start};
use rustls::{ClientConfig, HandshakeKind};
use sekisho_certs::{Found, OpenKey, Tenant, TlsVersion};
use sekisho_server::tickets::Ring;
use sekisho_testkit::{Key, TestCa};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Sends a request; returns the kind of its handshake.
async fn visit(running: &Running, name: &str, config: &Arc<ClientConfig>) -> HandshakeKind {
    visit_for_tickets(running, name, config).await.0
}

/// Sends a request; returns the kind of its handshake, and how many tickets of TLS 1.3
/// the client got.
async fn visit_for_tickets(
    running: &Running,
    name: &str,
    config: &Arc<ClientConfig>,
) -> (HandshakeKind, u32) {
    let socket = TcpStream::connect(running.address).await.unwrap();
    let server_name = name.to_owned().try_into().unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    let mut stream = connector.connect(server_name, socket).await.unwrap();
    let kind = stream.get_ref().1.handshake_kind().unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 308"), "{answer}");
    (kind, stream.get_ref().1.tls13_tickets_received())
}

fn with_ring(ring: &Arc<Ring>) -> Setup {
    Setup {
        ring: Arc::clone(ring),
        ..Setup::with_default("a.example")
    }
}

#[tokio::test]
async fn sessions_resume_on_every_server_with_the_same_keys() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let host = || host("a.example", &[(&pair, Key::P256)]);
    let ring = Arc::new(Ring::random());
    let first = start(Scripted::new([host()]), &with_ring(&ring));
    let second = start(Scripted::new([host()]), &with_ring(&ring));
    let stranger = start(Scripted::new([host()]), &Setup::default());
    for tls12 in [false, true] {
        let config = resuming(&ca, tls12);
        assert_eq!(
            visit(&first, "a.example", &config).await,
            HandshakeKind::Full
        );
        for _ in 0..3 {
            let kind = visit(&first, "a.example", &config).await;
            assert_eq!(kind, HandshakeKind::Resumed, "tls12: {tls12}");
        }
        let kind = visit(&second, "a.example", &config).await;
        assert_eq!(kind, HandshakeKind::Resumed, "tls12: {tls12}");
        let kind = visit(&stranger, "a.example", &config).await;
        assert_eq!(kind, HandshakeKind::Full, "tls12: {tls12}");
    }
}

#[tokio::test]
async fn tickets_are_bound_to_tenant_policy_and_address() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let made = |change: &dyn Fn(&mut Found<OpenKey>)| {
        let mut found = host("a.example", &[(&pair, Key::P256)]);
        change(&mut found);
        Scripted::new([found])
    };
    let ring = Arc::new(Ring::random());
    let here = start(made(&|_| {}), &with_ring(&ring));
    let moved = start(
        made(&|found| found.record.tenant = Tenant::parse("other").unwrap()),
        &with_ring(&ring),
    );
    let stricter = start(
        made(&|found| found.record.tls = TlsVersion::Tls13.into()),
        &with_ring(&ring),
    );
    for other in [&moved, &stricter] {
        let config = resuming(&ca, false);
        assert_eq!(
            visit(&here, "a.example", &config).await,
            HandshakeKind::Full
        );
        assert_eq!(
            visit(other, "a.example", &config).await,
            HandshakeKind::Full
        );
        assert_eq!(
            visit(other, "a.example", &config).await,
            HandshakeKind::Resumed
        );
    }
    // A session without a server name is bound to the address.
    let mut nameless = ClientConfig::clone(&resuming(&ca, false));
    nameless.enable_sni = false;
    let nameless = Arc::new(nameless);
    assert_eq!(
        visit(&here, "a.example", &nameless).await,
        HandshakeKind::Full
    );
    assert_eq!(
        visit(&here, "a.example", &nameless).await,
        HandshakeKind::Resumed
    );
    let mut named = ClientConfig::clone(&nameless);
    named.enable_sni = true;
    assert_eq!(
        visit(&here, "a.example", &Arc::new(named)).await,
        HandshakeKind::Full
    );
}

#[tokio::test]
async fn tickets_come_without_a_request() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let running = start(
        Scripted::new([host("a.example", &[(&pair, Key::P256)])]),
        &Setup::default(),
    );
    let socket = TcpStream::connect(running.address).await.unwrap();
    let connector = TlsConnector::from(resuming(&ca, false));
    let name = "a.example".try_into().unwrap();
    let mut stream = connector.connect(name, socket).await.unwrap();
    while stream.get_ref().1.tls13_tickets_received() == 0 {
        let read = tokio::time::timeout(
            std::time::Duration::from_secs(30),
            stream.get_ref().0.readable(),
        );
        read.await.expect("tickets within their patience").unwrap();
        let _ = futures_util::future::poll_immediate(stream.read_u8()).await;
    }
}

#[tokio::test]
async fn each_session_gets_two_tickets() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let running = start(
        Scripted::new([host("a.example", &[(&pair, Key::P256)])]),
        &Setup::with_default("a.example"),
    );
    let named = resuming(&ca, false);
    let mut nameless = ClientConfig::clone(&resuming(&ca, false));
    nameless.enable_sni = false;
    for config in [named, Arc::new(nameless)] {
        let first = visit_for_tickets(&running, "a.example", &config).await;
        assert_eq!(first, (HandshakeKind::Full, 2));
        for _ in 0..4 {
            let next = visit_for_tickets(&running, "a.example", &config).await;
            assert_eq!(next, (HandshakeKind::Resumed, 2));
        }
    }
}
