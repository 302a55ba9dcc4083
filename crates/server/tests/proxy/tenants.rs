//! Tenants that share an upstream: no site spoils it for another tenant's.

use sekisho_testkit::{Key, TestCa};

use crate::http2_heads;
use crate::tls::{Secure, json};
use crate::world::{HOST, OK, Upstream, World, patiently};

/// Host of another tenant than [`HOST`]'s.
const OTHER: &str = "b.example";

/// Asks until one answer has this body.
async fn sees(world: &World, host: &str, body: &str) {
    for _ in 0..100 {
        if world.get(host).await == (200, body.into()) {
            return;
        }
    }
    panic!("{body} gets no request of {host}");
}

const ONE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
const TWO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo";

#[tokio::test]
async fn the_settings_of_a_tenant_eject_no_server_for_another() {
    let ca = TestCa::new();
    let pair = ca.issue(&["up.example"], Key::P256);
    let tls = format!(
        r#""tls": {{"name": "up.example", "ca": {}}}"#,
        json(&ca.root_pem())
    );
    for wrong in [
        r#", "protocol": "http2""#,
        r#", "proxy_protocol": "v1""#,
        r#", "protocol": "http2", "timeouts": {"connect": "1s"}"#,
    ] {
        let one = Secure::bind(&pair, None, b"http/1.1").await;
        let two = Secure::bind(&pair, None, b"http/1.1").await;
        let good = format!(
            r#"{{"upstream": {{"servers": ["{}", "{}"], {tls}}}}}"#,
            one.url(),
            two.url()
        );
        let bad = format!(
            r#"{{"upstream": {{"servers": ["{}"], {tls}{wrong}}}}}"#,
            one.url()
        );
        one.answering(ONE);
        two.answering(TWO);
        let sites = [(HOST, "acme", &*good), (OTHER, "evil", &*bad)];
        let world = World::shared(TestCa::new(), &sites);
        for _ in 0..8 {
            assert_eq!(world.get(OTHER).await.0, 502, "{wrong}");
        }
        sees(&world, HOST, "one").await;
        sees(&world, HOST, "two").await;
    }
}

#[tokio::test]
async fn answers_to_tenants_that_take_turns_eject_no_server_for_a_third() {
    let (one, two) = (Upstream::bind().await, Upstream::bind().await);
    let (at_one, at_two) = (one.address(), two.address());
    let good = format!(r#"{{"upstream": {{"servers": ["http://{at_one}", "http://{at_two}"]}}}}"#);
    let bad =
        format!(r#"{{"upstream": "http://{at_one}", "request": {{"set": {{"X-Fail": "1"}}}}}}"#);
    tokio::spawn(async move {
        loop {
            let mut wire = one.accept_any().await;
            tokio::spawn(async move {
                while let Some(head) = wire.next_head().await {
                    let fails = head.to_lowercase().contains("x-fail");
                    let failed = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";
                    wire.send(if fails { failed } else { ONE }).await;
                }
            });
        }
    });
    two.answering(TWO);
    let sites = [
        (HOST, "acme", &*good),
        (OTHER, "evil", &*bad),
        ("c.example", "twin", &*bad),
    ];
    let world = World::shared(TestCa::new(), &sites);
    for _ in 0..8 {
        for host in [OTHER, "c.example"] {
            assert_eq!(world.get(host).await.0, 503);
        }
    }
    sees(&world, HOST, "one").await;
}

#[tokio::test]
async fn a_server_that_one_tenant_found_gone_is_asked_by_another() {
    let gone = Upstream::bind().await;
    let (address, live) = (gone.address(), Upstream::bind().await);
    drop(gone);
    let both = format!(
        r#"{{"upstream": {{"servers": ["http://{address}", "http://{}"]}}}}"#,
        live.address()
    );
    let sites = [(HOST, "acme", &*both), (OTHER, "other", &*both)];
    let world = World::shared(TestCa::new(), &sites);
    live.answering(TWO);
    for _ in 0..40 {
        assert_eq!(world.get(OTHER).await, (200, "two".into()));
    }
    let back = patiently(tokio::net::TcpListener::bind(&address)).await;
    Upstream::of(back.unwrap()).answering(ONE);
    sees(&world, HOST, "one").await;
    // The tenant that ejected it still passes it over.
    for _ in 0..20 {
        assert_eq!(world.get(OTHER).await, (200, "two".into()));
    }
}

#[tokio::test]
async fn a_connection_of_a_tenant_serves_no_other() {
    let upstream = Upstream::bind().await;
    let site = upstream.site();
    let sites = [(HOST, "acme", &*site), (OTHER, "evil", &*site)];
    let world = World::shared(TestCa::new(), &sites);
    let served = async {
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(TWO).await;
        server
    };
    let (got, mut left) = tokio::join!(world.get(OTHER), served);
    assert_eq!(got, (200, "two".into()));
    let served = async {
        let mut server = upstream.accept().await;
        server.head().await;
        // The other tenant's connection brings an answer that nobody asked for.
        left.send(TWO).await;
        server.send(ONE).await;
        server
    };
    let (got, _server) = tokio::join!(world.get(HOST), served);
    assert_eq!(got, (200, "one".into()));
}

#[tokio::test]
async fn connections_of_a_tenant_are_not_counted_for_another() {
    let upstream = Upstream::bind().await;
    let site = |connections: u32| {
        format!(
            r#"{{"upstream": {{"servers": ["http://{}"], "connections": {connections}}}}}"#,
            upstream.address()
        )
    };
    let (many, few) = (site(65_536), site(1));
    let sites = [(HOST, "acme", &*few), (OTHER, "evil", &*many)];
    let world = World::shared(TestCa::new(), &sites);
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut client = world.connect_to(OTHER).await;
        client
            .send(format!("GET / HTTP/1.1\r\nHost: {OTHER}\r\n\r\n"))
            .await;
        let mut server = upstream.accept().await;
        server.head().await;
        held.push((client, server));
    }
    let answering = async {
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(OK).await;
        server
    };
    let (got, _server) = tokio::join!(world.get(HOST), answering);
    assert_eq!(got, (200, "ok".into()));
}

#[tokio::test]
async fn streams_of_a_tenant_share_no_connection_with_anothers() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["h2c://{}"], "connections": 1}}}}"#,
        upstream.address()
    );
    let sites = [(HOST, "acme", &*site), (OTHER, "evil", &*site)];
    let world = World::shared(TestCa::new(), &sites);
    let got = world.get(HOST);
    let serving = async {
        let mut server = http2_heads::accept(&upstream).await;
        // The other tenant's application floods its connection meanwhile.
        let flood = async {
            let mut flooding = http2_heads::accept(&upstream).await;
            flooding.send(http2_heads::EARLY.repeat(1000)).await;
            flooding
        };
        let (got, _flooding) = tokio::join!(world.get(OTHER), flood);
        assert_eq!(got.0, 502);
        server.send(http2_heads::NO_CONTENT).await;
        server
    };
    let (got, _server) = tokio::join!(got, serving);
    assert_eq!(got.0, 204);
}
