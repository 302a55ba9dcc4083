//! Tests that each outcome of a handshake has its own count.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::metrics::{counted, figure};
use common::{LIMITS, Scripted, Setup, alert, host, raw, start};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};

#[tokio::test]
async fn each_outcome_is_counted_once() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example", "off.example"], Key::P256);
    let mut off = host("off.example", &[(&pair, Key::P256)]);
    off.record.disabled = true;
    let hosts = [
        host("a.example", &[(&pair, Key::P256)]),
        host("bare.example", &[]),
        off,
    ];
    let setup = Setup::limits(Limits {
        handshake: Duration::from_secs(2),
        absent_per_prefix: 3,
        ..LIMITS
    });
    let running = start(Scripted::new(hosts), &setup);
    for (name, outcome) in [
        ("a.example", "full"),
        ("nobody.example", "absent_host"),
        ("bare.example", "no_credential"),
        ("off.example", "disabled"),
        ("beyond.example", "overloaded"),
    ] {
        alert(&running, name, client::config(&ca)).await;
        counted(&running, outcome, 1).await;
    }
    let mut nameless = client::config(&ca);
    nameless.enable_sni = false;
    alert(&running, "a.example", nameless).await;
    counted(&running, "no_sni", 1).await;
    let mut challenge = client::config(&ca);
    challenge.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    alert(&running, "a.example", challenge).await;
    counted(&running, "no_application_protocol", 1).await;
    raw(running.address, b"GET / HTTP/1.1\r\n\r\n").await;
    counted(&running, "plain_http", 1).await;
    raw(running.address, b"SSH-2.0-x\r\n").await;
    counted(&running, "not_tls", 1).await;
    let garbled = [&[0x16, 3, 1, 0, 5, 1, 0, 0, 1][..], &[0xff; 64]].concat();
    raw(running.address, &garbled).await;
    counted(&running, "malformed", 1).await;
    raw(running.address, &[0x16, 3, 1]).await;
    counted(&running, "timed_out", 1).await;
    drop(tokio::net::TcpStream::connect(running.address).await);
    counted(&running, "aborted", 1).await;
}

#[tokio::test]
async fn what_is_late_or_expired_is_counted() {
    let ca = TestCa::new();
    let old = ca.issue_valid(&["old.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    let mut expired = host("old.example", &[(&old, Key::P256)]);
    expired.credentials[0].not_after = 1_609_459_200_000;
    let setup = Setup::limits(Limits {
        handshake: Duration::from_secs(2),
        ..LIMITS
    });
    let running = start(Scripted::new([expired]), &setup);
    let seen = alert(&running, "old.example", client::config(&ca)).await;
    assert!(seen.contains("certificate expired"), "{seen}");
    assert_eq!(figure(&running, "sekisho_expired_served_total").await, 1);
    running.store.hold();
    let seen = alert(&running, "late.example", client::config(&ca)).await;
    assert!(seen.contains("InternalError"), "{seen}");
    counted(&running, "failed", 1).await;
    counted(&running, "timed_out", 0).await;
}
