//! Tests which hosts a connection reaches.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{LIMITS, Running, Scripted, Setup, host, start};
use sekisho_certs::store::{ChangePage, LogId, LogPosition, Subject, What};
use sekisho_certs::{FeedState, Follower as _, HostPattern, Tenant, TlsVersion};
use sekisho_server::Limits;
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

struct Visit(TlsStream<TcpStream>);

impl Visit {
    async fn begin(running: &Running, ca: &TestCa, name: &str) -> Self {
        let stream = client::connect(running.address, name, client::config(ca)).await;
        Self(stream.expect("a handshake"))
    }

    /// Sends one request. Returns the status and the redirect's target.
    async fn ask(&mut self, request: &str) -> (u16, String) {
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.0.read_u8().await.expect("an answer"));
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await.unwrap();
        (head[9..12].parse().unwrap(), head)
    }

    async fn get(&mut self, name: &str) -> u16 {
        let request = format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n");
        self.ask(&request).await.0
    }

    async fn closes(mut self) -> bool {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).await.is_ok() && rest.is_empty()
    }
}

/// Applies a change of this host to the lookup.
fn change(running: &Running, number: u64, pattern: &str) {
    let log = LogId([7; 16]);
    if running.lookup.stats().position == 0 {
        running.lookup.restart(LogPosition {
            log,
            number: 0,
            mark: 0,
        });
        running.lookup.feed_is(FeedState::Healthy);
    }
    running.lookup.apply(&ChangePage {
        log,
        last: number,
        gap: false,
        mark_before: Some(0),
        mark_last: Some(0),
        changes: vec![sekisho_certs::store::Change {
            number,
            subject: Subject::Host(HostPattern::parse(pattern).unwrap()),
            what: What::Put,
        }],
    });
}

#[tokio::test]
async fn the_own_name_is_served_in_all_its_forms() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let running = start(
        Scripted::new([host("a.example", &[(&pair, Key::P256)])]),
        &Setup::default(),
    );
    let mut visit = Visit::begin(&running, &ca, "a.example").await;
    for name in ["a.example", "A.EXAMPLE", "a.example:8443", "a.example."] {
        assert_eq!(visit.get(name).await, 308, "{name}");
    }
    let absolute = "GET https://a.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n";
    assert_eq!(visit.ask(absolute).await.0, 308);
    let disagreeing = "GET https://a.example/x HTTP/1.1\r\nHost: b.example\r\n\r\n";
    assert_eq!(visit.ask(disagreeing).await.0, 308, "RFC 9112, 3.2.2");
    assert_eq!(
        visit.ask("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n").await.0,
        400
    );
    assert_eq!(visit.ask("GET / HTTP/1.1\r\n\r\n").await.0, 400);
    let twice = "GET / HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n";
    assert_eq!(visit.ask(twice).await.0, 400);
    assert_eq!(visit.get("127.0.0.1").await, 421);
    let pipelined = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n".repeat(2);
    assert_eq!(visit.ask(&pipelined).await.0, 308);
    assert_eq!(visit.ask("").await.0, 308, "the second of two");
    let last = "GET / HTTP/1.0\r\nHost: a.example\r\n\r\n";
    assert_eq!(visit.ask(last).await.0, 308);
    assert!(visit.closes().await);
}

#[tokio::test]
async fn another_name_needs_the_certificate_the_tenant_and_the_policy() {
    let ca = TestCa::new();
    let names = [
        "a.example",
        "same.example",
        "tenant.example",
        "policy.example",
        "gone.example",
    ];
    let shared = ca.issue(&names, Key::P256);
    let own = ca.issue(&["uncovered.example"], Key::P256);
    let record = |name| host(name, &[(&shared, Key::P256)]);
    let mut tenant = record("tenant.example");
    tenant.record.tenant = Tenant::parse("other").unwrap();
    let mut policy = record("policy.example");
    policy.record.tls = TlsVersion::Tls13.into();
    let running = start(
        Scripted::new([
            record("a.example"),
            record("same.example"),
            tenant,
            policy,
            host("uncovered.example", &[(&own, Key::P256)]),
        ]),
        &Setup::default(),
    );
    let mut visit = Visit::begin(&running, &ca, "a.example").await;
    for (name, status) in [
        ("same.example", 308),
        ("tenant.example", 421),
        ("policy.example", 421),
        ("uncovered.example", 421),
        ("gone.example", 421),
        ("same.example", 308),
        ("a.example", 308),
    ] {
        assert_eq!(visit.get(name).await, status, "{name}");
    }
    // The record of the requested host answers, not the connection's.
    let (_, head) = visit
        .ask("GET / HTTP/1.1\r\nHost: same.example\r\n\r\n")
        .await;
    assert!(head.contains("/same.example/same.example"), "{head}");
}

#[tokio::test]
async fn a_removed_or_moved_host_ends_its_connections() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let record = || host("a.example", &[(&pair, Key::P256)]);
    let running = start(Scripted::new([record()]), &Setup::default());
    change(&running, 1, "unrelated.example");

    let mut visit = Visit::begin(&running, &ca, "a.example").await;
    assert_eq!(visit.get("a.example").await, 308);
    let calls = running.store.calls();
    change(&running, 2, "unrelated.example");
    assert_eq!(visit.get("a.example").await, 308);
    assert_eq!(running.store.calls(), calls, "still cached");

    let mut changed = record();
    changed.record.site = Some(sekisho_certs::Site {
        format: 1,
        json: r#"{"status":404}"#.into(),
    });
    running.store.put(changed);
    change(&running, 3, "a.example");
    assert_eq!(visit.get("a.example").await, 404, "the new site");

    let mut moved = record();
    moved.record.tenant = Tenant::parse("other").unwrap();
    running.store.put(moved);
    change(&running, 4, "a.example");
    let request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let (status, head) = visit.ask(request).await;
    assert!(
        status == 421 && head.contains("connection: close"),
        "{head}"
    );
    assert!(visit.closes().await);

    let mut visit = Visit::begin(&running, &ca, "a.example").await;
    running.store.remove("a.example");
    change(&running, 5, "a.example");
    assert_eq!(visit.ask(request).await.0, 421);
    assert!(visit.closes().await);
}

#[tokio::test]
async fn without_a_server_name_the_default_certificate_decides() {
    let ca = TestCa::new();
    let pair = ca.issue(
        &["default.example", "same.example", "tenant.example"],
        Key::P256,
    );
    let record = |name| host(name, &[(&pair, Key::P256)]);
    let mut tenant = record("tenant.example");
    tenant.record.tenant = Tenant::parse("other").unwrap();
    let uncovered = ca.issue(&["uncovered.example"], Key::P256);
    let running = start(
        Scripted::new([
            record("default.example"),
            record("same.example"),
            tenant,
            host("uncovered.example", &[(&uncovered, Key::P256)]),
        ]),
        &Setup::with_default("default.example"),
    );
    let mut config = client::config(&ca);
    config.enable_sni = false;
    let stream = client::connect(running.address, "default.example", config).await;
    let mut visit = Visit(stream.unwrap());
    for (name, status) in [
        ("default.example", 308),
        ("same.example", 308),
        ("tenant.example", 421),
        ("uncovered.example", 421),
        ("127.0.0.1", 421),
    ] {
        assert_eq!(visit.get(name).await, status, "{name}");
    }
}

#[tokio::test]
async fn plain_http_leads_to_https() {
    let running = start(Scripted::new([]), &Setup::default());
    for (request, want) in [
        ("GET /x?y HTTP/1.1\r\nHost: a.example\r\n\r\n", "308 "),
        (
            "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9\r\n\r\n",
            "308 ",
        ),
        ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "400 "),
        ("GET / HTTP/1.1\r\n\r\n", "400 "),
        ("\x16\x03\x01\r\n\r\n", "400 "),
    ] {
        let answer = common::raw(running.http, request.as_bytes()).await;
        let answer = String::from_utf8(answer).unwrap().to_ascii_lowercase();
        assert!(answer.starts_with(&format!("http/1.1 {want}")), "{answer}");
        let port = running.address.port();
        let location = format!("location: https://a.example:{port}/x");
        assert_eq!(want == "308 ", answer.contains(&location), "{answer}");
    }
}

#[tokio::test]
async fn a_stuck_store_costs_a_503_and_not_the_connection() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example", "b.example"], Key::P256);
    let running = start(
        Scripted::new([
            host("a.example", &[(&pair, Key::P256)]),
            host("b.example", &[(&pair, Key::P256)]),
        ]),
        &Setup::limits(Limits {
            handshake: Duration::from_secs(2),
            ..LIMITS
        }),
    );
    let mut visit = Visit::begin(&running, &ca, "a.example").await;
    running.store.hold();
    let asked = tokio::time::timeout(std::time::Duration::from_secs(30), visit.get("b.example"));
    assert_eq!(asked.await.expect("an answer"), 503);
    assert_eq!(visit.get("a.example").await, 308, "what is known");
}
