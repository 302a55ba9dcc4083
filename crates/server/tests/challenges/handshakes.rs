//! Validation over TLS (RFC 8737).

use std::time::Duration;

use sekisho_certs::{ChallengeKind, Clock, KeyAuthorization};
use sekisho_server::Limits;
use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::metrics::counted;
use crate::common::{LIMITS, alert, status};
use crate::validator::{validate, validator};
use crate::{AUTHORIZATION, Fixture};

/// Returns the alert that a validation of `name` ends with.
async fn validated(fixture: &Fixture, name: &str) -> String {
    alert(&fixture.running, name, validator(&fixture.ca, false)).await
}

#[tokio::test]
async fn a_validator_gets_the_challenge_certificate_and_no_data() {
    let fixture = Fixture::new().await;
    let mut keys = Vec::new();
    for name in ["new.example", "a.example"] {
        let before = fixture.orders.catalog.reads();
        let kind = ChallengeKind::TlsAlpn01;
        fixture.orders.put(kind, name, AUTHORIZATION).await;
        for tls12 in [false, true] {
            let config = validator(&fixture.ca, tls12);
            let stream = client::connect(fixture.running.address, name, config).await;
            let mut stream = stream.unwrap();
            let (_, tls) = stream.get_ref();
            assert_eq!(tls.alpn_protocol(), Some(&b"acme-tls/1"[..]));
            let [certificate] = tls.peer_certificates().unwrap() else {
                panic!("a chain");
            };
            keys.push(validate(certificate, name, AUTHORIZATION));
            let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.expect("close_notify");
            assert!(answer.is_empty(), "{answer:?}");
            assert_eq!(stream.get_ref().1.tls13_tickets_received(), 0);
        }
        // The next order of the name has another answer, at once.
        let reads = fixture.orders.catalog.reads() - before;
        assert_eq!(reads, 2, "each handshake reads what another process has");
    }
    assert!(keys.iter().all(|key| *key == keys[0]), "one key for all");
    assert_eq!(fixture.running.store.calls(), 0);
    let seen = status(&fixture.running, "a.example", client::config(&fixture.ca)).await;
    assert_eq!(seen.unwrap(), "HTTP/1.1 308 Permanent Redirect");
    counted(&fixture.running, "challenge", 4).await;
    counted(&fixture.running, "full", 1).await;
}

#[tokio::test]
async fn only_a_validator_of_a_known_name_is_answered() {
    let fixture = Fixture::new().await;
    let kind = ChallengeKind::Http01;
    fixture.orders.put(kind, "new.example", AUTHORIZATION).await;
    for name in ["new.example", "a.example"] {
        let seen = validated(&fixture, name).await;
        assert!(seen.contains("NoApplicationProtocol"), "{name}: {seen}");
    }
    assert_eq!(fixture.orders.catalog.reads(), 2);
    let mut nameless = validator(&fixture.ca, false);
    nameless.enable_sni = false;
    let seen = alert(&fixture.running, "a.example", nameless).await;
    assert!(seen.contains("NoApplicationProtocol"), "{seen}");
    counted(&fixture.running, "absent_challenge", 3).await;
    counted(&fixture.running, "no_application_protocol", 0).await;
    // Of several protocols, HTTP is served: that is no validator.
    let kind = ChallengeKind::TlsAlpn01;
    fixture.orders.put(kind, "a.example", AUTHORIZATION).await;
    let mut config = client::config(&fixture.ca);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec(), b"http/1.1".to_vec()];
    let stream = client::connect(fixture.running.address, "a.example", config).await;
    let stream = stream.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(fixture.orders.catalog.reads(), 2);
}

#[tokio::test]
async fn an_unanswered_read_refuses_a_validator() {
    let fixture = Fixture::with(Limits {
        handshake: Duration::from_secs(2),
        absent_per_prefix: 1,
        ..LIMITS
    })
    .await;
    let catalog = &fixture.orders.catalog;
    catalog.fail(true);
    // A failure costs no token of the prefix.
    for reads in 1..=3 {
        let seen = validated(&fixture, "new.example").await;
        assert!(seen.contains("InternalError"), "{seen}");
        assert_eq!(catalog.reads(), reads);
    }
    catalog.fail(false);
    let seen = validated(&fixture, "new.example").await;
    assert!(seen.contains("NoApplicationProtocol"), "{seen}");
    let seen = validated(&fixture, "new.example").await;
    assert!(seen.contains("InternalError"), "over the budget: {seen}");
    assert_eq!(catalog.reads(), 4);
    let kind = ChallengeKind::TlsAlpn01;
    let own = Clock::System.now() + 60;
    let answer = KeyAuthorization::new(AUTHORIZATION);
    let served = &fixture.orders.served;
    served.keep(kind, "new.example", answer, own);
    let seen = validated(&fixture, "new.example").await;
    assert_eq!(seen, "none: the handshake succeeded", "in memory");
    counted(&fixture.running, "failed", 3).await;
    counted(&fixture.running, "overloaded", 1).await;
}

#[tokio::test]
async fn a_read_that_hangs_ends_with_the_handshake() {
    let fixture = Fixture::with(Limits {
        handshake: Duration::from_secs(2),
        ..LIMITS
    })
    .await;
    fixture.orders.catalog.hold();
    let seen = validated(&fixture, "new.example").await;
    assert!(seen.contains("InternalError"), "{seen}");
    assert_eq!(fixture.orders.catalog.reads(), 1);
}
