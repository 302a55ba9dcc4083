//! Clients behind proxies that are trusted: who may ask, how often, and fields.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Instant;

use sekisho_server::network::{Network, Networks};

use crate::common::{LIMITS, Setup};
use crate::world::{HOST, OK, Upstream, World, field, status};

fn trusting(networks: &[&str]) -> Setup {
    let mut setup = Setup::limits(LIMITS);
    let trusted = networks.iter().map(|text| Network::parse(text).unwrap());
    setup.settings.trusted = trusted.collect::<Networks>();
    setup
}

/// Asks for a path behind proxies that sent these addresses.
async fn ask(world: &World, path: &str, forwarded: &str) -> u16 {
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nX-Forwarded-For: {forwarded}\r\n\r\n"
    );
    status(&world.exchange(&request).await)
}

#[tokio::test]
async fn the_client_that_a_trusted_proxy_names_is_allowed_or_denied() {
    let site = r#"{
        "status": 404,
        "paths": [
            {"path": "/in", "status": 404, "allow": ["192.0.2.0/24", "2001:db8::/32"]},
            {"path": "/out", "status": 404, "deny": ["192.0.2.0/24"]},
            {"path": "/proxy", "status": 404, "allow": ["127.0.0.0/8"]}
        ]
    }"#;
    let world = World::of_setup(trusting(&["127.0.0.0/8", "10.0.0.0/8"]), &[(HOST, site)]);
    for (path, forwarded, expected) in [
        ("/in", "192.0.2.1", 404),
        ("/in", "[2001:db8::1]:4711", 404),
        ("/in", "203.0.113.1, 192.0.2.1", 404),
        ("/in", "192.0.2.1, 10.0.0.7", 404),
        // What stands left of the client was written by it.
        ("/in", "192.0.2.1, 203.0.113.1", 403),
        ("/in", "192.0.2.1, 203.0.113.1, 10.0.0.7", 403),
        ("/in", "192.0.2.1, unknown", 403),
        ("/%69n", "203.0.113.1", 403),
        ("/out", "192.0.2.1", 403),
        ("/out", "203.0.113.1, 192.0.2.1", 403),
        ("//out", "192.0.2.1", 403),
        ("/out", "192.0.2.1, 203.0.113.1", 404),
        // The proxy is not the client.
        ("/proxy", "192.0.2.1", 403),
        ("/proxy", "unknown", 403),
        ("/proxy", "10.0.0.7", 403),
        ("/out", "unknown", 404),
    ] {
        let status = ask(&world, path, forwarded).await;
        assert_eq!(status, expected, "{path} {forwarded}");
    }
    // Nobody believes a peer that is not trusted.
    let world = World::of_setup(trusting(&["10.0.0.0/8"]), &[(HOST, site)]);
    for (path, expected) in [("/in", 403), ("/out", 404), ("/proxy", 404)] {
        assert_eq!(ask(&world, path, "192.0.2.1").await, expected, "{path}");
    }
}

#[tokio::test]
async fn a_rate_is_that_of_the_client_behind_the_proxy() {
    let site = r#"{"status": 404, "rate": {"client": 1}}"#;
    let world = World::of_setup(trusting(&["127.0.0.0/8"]), &[(HOST, site)]);
    // One network (/24, or /56) has one rate; each other has its own.
    for (clients, other) in [
        (
            ["192.0.2.1", "192.0.2.200", "1.2.3.4, 192.0.2.9"],
            "198.51.100.1",
        ),
        (
            ["2001:db8::1", "2001:db8:0:ff::1", "192.0.2.1, 2001:db8::2"],
            "2001:db8:0:100::1",
        ),
    ] {
        let (begun, mut passed) = (Instant::now(), 0);
        for turn in 0..30 {
            passed += u64::from(ask(&world, "/", clients[turn % 3]).await == 404);
        }
        let most = 2 + begun.elapsed().as_secs();
        assert!((1..=most).contains(&passed), "{passed}");
        assert_eq!(ask(&world, "/", other).await, 404);
    }
}

#[tokio::test]
async fn all_spellings_of_a_path_have_one_rate() {
    let site = r#"{
        "status": 404,
        "paths": [{"path": "/limited", "status": 404, "rate": {"client": 1}}]
    }"#;
    let world = World::new(site);
    let spellings = [
        "/limited",
        "//limited",
        "/./limited",
        "/x/../limited",
        "/%6Cimited",
        "/l%69mited",
        "/%6c%69%6D%69%74%65%64",
        "/limited/",
        "/limited/a",
        "/limited//./a",
        "/limited?b",
    ];
    let (begun, mut passed) = (Instant::now(), 0);
    for spelling in spellings.iter().cycle().take(36) {
        let status = ask(&world, spelling, "").await;
        assert!(matches!(status, 404 | 429), "{spelling}: {status}");
        passed += u64::from(status == 404);
    }
    // A bucket for each spelling would let 12 pass.
    let most = 2 + begun.elapsed().as_secs();
    assert!((1..=most).contains(&passed), "{passed}");
    assert_eq!(ask(&world, "/free", "").await, 404);
}

/// Answers of a server on `[::1]`, which the client connects to by IPv6.
fn over_ipv6(mut setup: Setup, site: &str) -> World {
    setup.settings.https = vec![SocketAddr::from((Ipv6Addr::LOCALHOST, 0))];
    World::of_setup(setup, &[(HOST, site)])
}

#[tokio::test]
async fn forwarded_is_continued_behind_a_trusted_proxy() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["{}"], "forwarded": true}}}}"#,
        upstream.url()
    );
    let mut heads = upstream.answering(OK);
    let theirs = "for=192.0.2.1;proto=http, for=\"[2001:db8::1]\"";
    let v4 = "for=127.0.0.1;host=\"a.example\";proto=https";
    let v6 = "for=\"[::1]\";host=\"a.example\";proto=https";
    let trusted = trusting(&["127.0.0.0/8", "::1"]);
    for (world, expected) in [
        (
            World::of_setup(trusted, &[(HOST, &site)]),
            format!("{theirs}, by=x, {v4}"),
        ),
        (World::new(&site), v4.to_owned()),
        (
            over_ipv6(trusting(&["::1"]), &site),
            format!("{theirs}, by=x, {v6}"),
        ),
        (over_ipv6(trusting(&[]), &site), v6.to_owned()),
    ] {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\
             Forwarded: {theirs}\r\nForwarded: by=x\r\n\r\n"
        );
        assert_eq!(status(&world.exchange(&request).await), 200);
        let head = heads.recv().await.unwrap();
        assert_eq!(field(&head, "forwarded"), Some(expected), "{head}");
    }
}

#[tokio::test]
async fn a_trusted_peer_claims_port_and_address() {
    let upstream = Upstream::bind().await;
    let world = World::of_setup(trusting(&["127.0.0.0/8"]), &[(HOST, &upstream.site())]);
    let mut client = world.connect().await;
    client
        .send(format!(
            "GET / HTTP/1.1\r\nHost: {HOST}\r\nX-Forwarded-Port: 8443\r\n\
             CF-Connecting-IP: 192.0.2.1\r\nx.forwarded.port: 1\r\n\r\n"
        ))
        .await;
    let head = upstream.accept().await.head().await;
    assert_eq!(field(&head, "x-forwarded-port").as_deref(), Some("8443"));
    assert_eq!(
        field(&head, "cf-connecting-ip").as_deref(),
        Some("192.0.2.1")
    );
    assert_eq!(field(&head, "x.forwarded.port"), None);
}
