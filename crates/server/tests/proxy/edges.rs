//! Proxies before us, and the PROXY protocol towards an upstream.

use std::net::{Ipv4Addr, SocketAddr};

use sekisho_server::access_log::{AccessLog, Format, Settings, Target};
use sekisho_server::network::{Network, Networks};

use crate::common::{LIMITS, Setup};
use crate::world::{HOST, OK, Upstream, World, field};

#[tokio::test]
async fn fields_of_a_trusted_proxy_are_continued() {
    let upstream = Upstream::bind().await;
    let mut setup = Setup::limits(LIMITS);
    let trusted = Network::parse("127.0.0.0/8").unwrap();
    setup.settings.trusted = Networks::from_iter([trusted]);
    let world = World::of_setup(setup, &[(HOST, &upstream.site())]);
    let mut client = world.connect().await;
    client
        .send(
            "GET / HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-Forwarded-For: 192.0.2.2\r\nX-Forwarded-Proto: http\r\n\
             X-Forwarded-Host: b.example\r\nX-Request-Id: abc\r\nX-Real-IP: 192.0.2.1\r\n\r\n",
        )
        .await;
    let head = upstream.accept().await.head().await;
    for (name, value) in [
        ("x-forwarded-for", Some("192.0.2.1, 192.0.2.2, 127.0.0.1")),
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-host", Some("b.example")),
        ("x-request-id", Some("abc")),
        ("x-real-ip", None),
    ] {
        assert_eq!(field(&head, name).as_deref(), value, "{name}");
    }
}

/// The log's id, or a trusted proxy's, goes to the upstream unless the rule says
/// otherwise.
#[tokio::test]
async fn a_rule_s_request_id_stands_with_and_without_an_access_log() {
    let folder = tempfile::tempdir().unwrap();
    let target = Target::File(folder.path().join("access.log"));
    let format = Format::Json;
    let log = AccessLog::start(&Settings { target, format }).unwrap();
    for log in [None, Some(log)] {
        let upstream = Upstream::bind().await;
        let site = |request: &str| {
            let address = upstream.address();
            format!(r#"{{"upstream": "http://{address}", "request": {request}}}"#)
        };
        let sites = [
            ("a.example", site(r#"{"set": {"X-Request-Id": "rule"}}"#)),
            ("b.example", site(r#"{"remove": ["X-Request-Id"]}"#)),
            ("c.example", site("{}")),
        ];
        let mut setup = Setup::limits(LIMITS);
        setup.access_log.clone_from(&log);
        let sites = sites.each_ref().map(|(name, site)| (*name, &**site));
        let world = World::of_setup(setup, &sites);
        for (host, expected) in [
            ("a.example", Some("rule")),
            ("b.example", None),
            ("c.example", None),
        ] {
            let mut client = world.connect().await;
            client
                .send(format!(
                    "GET / HTTP/1.1\r\nHost: {host}\r\nX-Request-Id: client\r\n\r\n"
                ))
                .await;
            let head = upstream.accept().await.head().await;
            let id = field(&head, "x-request-id");
            assert_ne!(id.as_deref(), Some("client"), "{host}");
            if host == "c.example" && log.is_some() {
                assert_eq!(id.unwrap().len(), 32);
            } else {
                assert_eq!(id.as_deref(), expected, "{host}");
            }
        }
    }
}

#[tokio::test]
async fn the_proxy_protocol_gives_each_client_connections_of_its_own() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "proxy_protocol": "v1"}}}}"#,
        upstream.address()
    );
    let limits = sekisho_server::Limits {
        workers: 1,
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &site)]);
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = world.connect().await;
        client
            .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
            .await;
        let mut server = upstream.accept().await;
        let line = server.until("\r\n").await;
        assert!(
            line.starts_with("PROXY TCP4 127.0.0.1 127.0.0.1 "),
            "{line}"
        );
        assert!(line.contains(&format!(" {} ", client.port())), "{line}");
        assert!(server.head().await.starts_with("GET / "));
        server.send(OK).await;
        client.answer().await;
        clients.push((client, server));
    }
    for (client, server) in &mut clients {
        client
            .send(format!("GET /again HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
            .await;
        assert!(server.head().await.starts_with("GET /again "));
        server.send(OK).await;
        client.answer().await;
    }
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn the_proxy_protocol_names_the_address_that_the_client_connected_to() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "proxy_protocol": "v1"}}}}"#,
        upstream.address()
    );
    let mut setup = Setup::limits(LIMITS);
    setup.settings.https = vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0))];
    let mut world = World::of_setup(setup, &[(HOST, &site)]);
    let port = world.running.address.port();
    world.running.address = SocketAddr::from(([127, 0, 0, 2], port));
    let mut client = world.connect().await;
    client
        .send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"))
        .await;
    let line = upstream.accept().await.until("\r\n").await;
    let from = client.port();
    let expected = format!("PROXY TCP4 127.0.0.1 127.0.0.2 {from} {port}\r\n");
    assert_eq!(line, expected);
}
