//! Tests the outcomes of handshakes as a client sees them.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use common::{LIMITS, Running, Scripted, Setup, alert, host, raw, start, status};
use rustls::ClientConfig;
use sekisho_certs::{Clock, Found, OpenKey, TlsVersion};
use sekisho_server::Limits;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::io::AsyncWriteExt;

const SEES: &str = "HTTP/1.1 308 Permanent Redirect";

fn ecdsa(ca: &TestCa, name: &str) -> Pair {
    ca.issue(&[name], Key::P256)
}

fn simple(ca: &TestCa, name: &str) -> Found<OpenKey> {
    host(name, &[(&ecdsa(ca, name), Key::P256)])
}

fn without_sni(mut config: ClientConfig) -> ClientConfig {
    config.enable_sni = false;
    config
}

/// Makes a configuration that offers one TLS 1.2 suite only.
fn only_suite(ca: &TestCa, suite: rustls::CipherSuite) -> ClientConfig {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|one| one.suite() == suite);
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca.root()).unwrap();
    ClientConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[tokio::test]
async fn found_gets_its_certificate() {
    let ca = TestCa::new();
    let wildcard = ecdsa(&ca, "*.b.example");
    let running = start(
        Scripted::new([
            simple(&ca, "a.example"),
            host("*.b.example", &[(&wildcard, Key::P256)]),
        ]),
        &Setup::default(),
    );
    for name in ["a.example", "A.Example", "x.b.example", "y.b.example"] {
        for config in [client::config(&ca), client::config_tls12(&ca)] {
            let seen = status(&running, name, config).await;
            assert_eq!(seen.unwrap(), SEES, "{name}");
        }
    }
}

#[tokio::test]
async fn absent_and_unready_hosts_are_unrecognized() {
    let ca = TestCa::new();
    let mut disabled = simple(&ca, "off.example");
    disabled.record.disabled = true;
    let running = start(
        Scripted::new([host("bare.example", &[]), disabled]),
        &Setup::default(),
    );
    for name in ["nobody.example", "bare.example", "off.example"] {
        for config in [client::config(&ca), client::config_tls12(&ca)] {
            let seen = alert(&running, name, config).await;
            assert!(seen.contains("UnrecognisedName"), "{name}: {seen}");
        }
    }
    assert_eq!(running.store.calls(), 3, "absences are cached");
}

#[tokio::test]
async fn failures_are_internal_errors_and_never_the_default() {
    let ca = TestCa::new();
    let other = ecdsa(&ca, "other.example");
    let mut mismatched = simple(&ca, "bad.example");
    mismatched.credentials[0].chain = other.chain.clone();
    let mut odd_site = simple(&ca, "odd.example");
    odd_site.record.site.as_mut().unwrap().format = 99;
    let running = start(
        Scripted::new([simple(&ca, "default.example"), mismatched, odd_site]),
        &Setup::with_default("default.example"),
    );
    for name in ["bad.example", "odd.example"] {
        let seen = alert(&running, name, client::config(&ca)).await;
        assert!(seen.contains("InternalError"), "{name}: {seen}");
    }
    running.store.fail(true);
    let seen = alert(&running, "down.example", client::config(&ca)).await;
    assert!(seen.contains("InternalError"), "{seen}");
    running.store.fail(false);
    let seen = alert(&running, "down.example", client::config(&ca)).await;
    assert!(
        seen.contains("UnrecognisedName"),
        "failure is not cached: {seen}"
    );
}

#[tokio::test]
async fn without_a_name_the_default_answers() {
    let ca = TestCa::new();
    let running = start(
        Scripted::new([simple(&ca, "default.example")]),
        &Setup::with_default("default.example"),
    );
    for config in [client::config(&ca), client::config_tls12(&ca)] {
        let seen = status(&running, "default.example", without_sni(config)).await;
        assert_eq!(seen.unwrap(), SEES);
    }
    // Clients send no server name for an IP address. They get the default's
    // certificate, which is not valid for it.
    let seen = alert(&running, "127.0.0.1", client::config(&ca)).await;
    assert!(seen.contains("invalid peer certificate"), "{seen}");
}

#[tokio::test]
async fn without_a_name_and_a_default_there_is_an_alert_by_version() {
    let ca = TestCa::new();
    let running = start(Scripted::new([]), &Setup::default());
    let seen = alert(&running, "a.example", without_sni(client::config(&ca))).await;
    assert!(seen.contains("MissingExtension"), "{seen}");
    let suite = rustls::CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    let config = without_sni(only_suite(&ca, suite));
    let seen = alert(&running, "a.example", config).await;
    assert!(seen.contains("UnrecognisedName"), "{seen}");
    assert_eq!(running.store.calls(), 0);
}

#[tokio::test]
async fn an_expired_certificate_is_served_on() {
    let ca = TestCa::new();
    let pair = ca.issue_valid(&["old.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    let clock = Arc::new(AtomicI64::new(1_600_000_000_000));
    let running = start(
        Scripted::new([host("old.example", &[(&pair, Key::P256)])]),
        &Setup {
            clock: Clock::Manual(Arc::clone(&clock)),
            ..Setup::default()
        },
    );
    // The client's error about the expiry proves that it got the certificate.
    for year_later in [0, 31_536_000_000] {
        clock.fetch_add(year_later, Ordering::SeqCst);
        let seen = alert(&running, "old.example", client::config(&ca)).await;
        assert!(seen.contains("certificate expired"), "{seen}");
    }
}

#[tokio::test]
async fn the_challenge_protocol_is_refused() {
    let ca = TestCa::new();
    let running = start(Scripted::new([simple(&ca, "a.example")]), &Setup::default());
    let mut config = client::config(&ca);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let seen = alert(&running, "a.example", config).await;
    assert!(seen.contains("NoApplicationProtocol"), "{seen}");
    assert_eq!(running.store.calls(), 0);
}

#[tokio::test]
async fn a_dual_host_sends_what_the_client_takes() {
    let ca = TestCa::new();
    let (one, other) = (
        ca.issue(&["dual.example"], Key::P256),
        ca.issue(&["dual.example"], Key::Rsa2048),
    );
    let pairs = [(&one, Key::P256), (&other, Key::Rsa2048)];
    let running = start(
        Scripted::new([host("dual.example", &pairs), simple(&ca, "single.example")]),
        &Setup::default(),
    );
    let leaf = async |config| {
        let stream = client::connect(running.address, "dual.example", config).await;
        let stream = stream.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone()
    };
    let rsa = rustls::CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
    assert_eq!(leaf(client::config(&ca)).await, one.chain[0]);
    assert_eq!(leaf(client::config_tls12(&ca)).await, one.chain[0]);
    assert_eq!(leaf(only_suite(&ca, rsa)).await, other.chain[0]);
    let seen = alert(&running, "single.example", only_suite(&ca, rsa)).await;
    assert!(seen.contains("HandshakeFailure"), "{seen}");
}

#[tokio::test]
async fn the_tls_policy_holds() {
    let ca = TestCa::new();
    let mut strict = simple(&ca, "strict.example");
    strict.record.tls = TlsVersion::Tls13.into();
    let running = start(Scripted::new([strict]), &Setup::default());
    let seen = alert(&running, "strict.example", client::config_tls12(&ca)).await;
    assert!(seen.contains("ProtocolVersion"), "{seen}");
    let seen = status(&running, "strict.example", client::config(&ca)).await;
    assert_eq!(seen.unwrap(), SEES);
}

#[tokio::test]
async fn plain_http_gets_a_readable_400() {
    let running = start(Scripted::new([]), &Setup::default());
    let request = b"POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 70000\r\n\r\n";
    let request = [&request[..], &[b'x'; 70_000]].concat();
    let answer = String::from_utf8(raw(running.address, &request).await).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{answer}"
    );
    assert!(answer.contains("speaks HTTPS"), "{answer}");
}

#[tokio::test]
async fn what_is_no_tls_is_closed() {
    let running = start(Scripted::new([]), &Setup::default());
    for rubbish in [&b"SSH-2.0-OpenSSH\r\n"[..], b"\0", &[0x80, 0x2e, 1, 3]] {
        assert_eq!(raw(running.address, rubbish).await, b"");
    }
    let garbled = [&[0x16, 3, 1, 0, 5, 1, 0, 0, 1][..], &[0xff; 64]].concat();
    let answer = raw(running.address, &garbled).await;
    assert_eq!(&answer[..6], [21, 3, 3, 0, 2, 2], "a fatal alert");
}

#[tokio::test]
async fn what_is_no_hello_gets_an_alert() {
    let running = start(Scripted::new([]), &Setup::default());
    let long = [&[0x16, 3, 1, 0x40, 0, 1, 0, 0x50, 0][..], &[0; 0x4000]].concat();
    let server_hello_done = [0x16, 3, 3, 0, 4, 14, 0, 0, 0];
    let interleaved = [0x16, 3, 1, 0, 4, 1, 0, 0, 9, 0x17, 3, 3, 0, 1, 0];
    for (first, alert) in [
        (&[0x14, 3, 3, 0, 1, 1][..], 10),
        (&[0x17, 3, 3, 0, 1, 0], 10),
        (&server_hello_done, 10),
        (&interleaved, 10),
        (&long, 47),
    ] {
        let answer = raw(running.address, first).await;
        assert_eq!(answer, [21, 3, 3, 0, 2, 2, alert], "{:?}", &first[..6]);
    }
    let alert = [0x15, 3, 3, 0, 2, 2, 40];
    assert_eq!(raw(running.address, &alert).await, b"", "no answer");
}

#[tokio::test]
async fn a_slow_hello_meets_the_deadline() {
    let setup = Setup::limits(Limits {
        handshake: Duration::from_millis(300),
        ..LIMITS
    });
    let running = start(Scripted::new([]), &setup);
    let begun = std::time::Instant::now();
    let mut socket = tokio::net::TcpStream::connect(running.address)
        .await
        .unwrap();
    socket.write_all(&[0x16, 3, 1]).await.unwrap();
    let mut end = Vec::new();
    let _ = tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut end).await;
    assert!(begun.elapsed().as_millis() >= 290 && end.is_empty());
}

#[tokio::test]
async fn a_stuck_store_holds_up_only_what_is_not_cached() {
    let ca = TestCa::new();
    let running = start(
        Scripted::new([simple(&ca, "warm.example"), simple(&ca, "cold.example")]),
        &Setup::limits(Limits {
            handshake: Duration::from_secs(2),
            workers: 1,
            ..LIMITS
        }),
    );
    status(&running, "warm.example", client::config(&ca))
        .await
        .unwrap();
    running.store.hold();
    let (address, config) = (running.address, client::config(&ca));
    let cold = tokio::spawn(async move { client::connect(address, "cold.example", config).await });
    let seen = status(&running, "warm.example", client::config(&ca)).await;
    assert_eq!(seen.unwrap(), SEES);
    let seen = cold.await.unwrap().unwrap_err().to_string();
    assert!(seen.contains("InternalError"), "the delay is ours: {seen}");
    // The load continued without the client that began it.
    running.store.release(1);
    let seen = status(&running, "cold.example", client::config(&ca)).await;
    assert_eq!(seen.unwrap(), SEES);
    assert_eq!(running.store.calls(), 2);
}

#[tokio::test]
async fn random_names_are_refused_without_calls_and_nothing_else_is() {
    let ca = TestCa::new();
    let running = start(
        Scripted::new([simple(&ca, "a.example"), simple(&ca, "b.example")]),
        &Setup::limits(Limits {
            absent_per_prefix: 3,
            ..LIMITS
        }),
    );
    status(&running, "a.example", client::config(&ca))
        .await
        .unwrap();
    for number in 0..3 {
        let name = format!("random{number}.example");
        let seen = alert(&running, &name, client::config(&ca)).await;
        assert!(seen.contains("UnrecognisedName"), "{seen}");
    }
    let calls = running.store.calls();
    for name in ["random9.example", "b.example"] {
        let seen = alert(&running, name, client::config(&ca)).await;
        assert!(seen.contains("InternalError"), "{name}: {seen}");
    }
    for name in ["random0.example", "random1.example"] {
        let seen = alert(&running, name, client::config(&ca)).await;
        assert!(seen.contains("UnrecognisedName"), "cached: {seen}");
    }
    let seen = status(&running, "a.example", client::config(&ca)).await;
    assert_eq!(seen.unwrap(), SEES);
    assert_eq!(running.store.calls(), calls);
}

#[tokio::test]
async fn any_bytes_leave_the_server_serving() {
    let ca = TestCa::new();
    let running: Running = start(
        Scripted::new([simple(&ca, "a.example")]),
        &Setup::limits(Limits {
            handshake: Duration::from_secs(2),
            ..LIMITS
        }),
    );
    let hello = {
        let name = "a.example".try_into().unwrap();
        let config = Arc::new(client::config(&ca));
        let mut client = rustls::ClientConnection::new(config, name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    };
    let mut sockets = Vec::new();
    for cut in (1..hello.len()).step_by(7) {
        let mut socket = tokio::net::TcpStream::connect(running.address)
            .await
            .unwrap();
        socket.write_all(&hello[..cut]).await.unwrap();
        if cut % 2 == 0 {
            socket.shutdown().await.unwrap();
        }
        sockets.push(socket);
    }
    // A whole ClientHello, and then random bytes instead of the client's
    // flight.
    let bytes = [&hello[..], &[0x17, 3, 3, 0, 5, 1, 2, 3, 4, 5]].concat();
    assert!(raw(running.address, &bytes).await.len() > 7);
    let seen = status(&running, "a.example", client::config(&ca)).await;
    assert_eq!(seen.unwrap(), SEES);
}

#[tokio::test]
async fn a_hello_comes_byte_by_byte() {
    let ca = TestCa::new();
    let running = start(Scripted::new([simple(&ca, "a.example")]), &Setup::default());
    let socket = tokio::net::TcpStream::connect(running.address)
        .await
        .unwrap();
    socket.set_nodelay(true).unwrap();
    let name = "a.example".try_into().unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client::config(&ca)));
    let dribbled = connector.connect(name, common::Dribble(socket)).await;
    assert!(dribbled.is_ok(), "{:?}", dribbled.err());
}
