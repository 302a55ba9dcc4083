//! WebSocket and other protocols behind an upgrade.

use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use data_encoding::BASE64;
use http::{Method, Request, StatusCode};
use hyper::ext::Protocol;
use hyper_util::rt::TokioIo;
use sekisho_server::Limits;
use tokio::time::sleep;

use crate::common::LIMITS;
use crate::common::metrics::figure;
use crate::http2::empty;
use crate::world::{HOST, OK, Upstream, Wire, World, field, patiently, status};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, Upgrade\r\n\
                       Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

#[tokio::test]
async fn bytes_pass_both_ways_after_an_upgrade() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    // Bytes behind the request wait for the upstream's consent.
    client.send(format!("{UPGRADE}early")).await;
    let mut server = upstream.accept().await;
    let head = server.head().await;
    for (name, value) in [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("x-forwarded-proto", "https"),
    ] {
        assert_eq!(field(&head, name).as_deref(), Some(value), "{name}");
    }
    server.send(format!("{SWITCH}first")).await;
    let head = client.head().await;
    assert_eq!(status(&head), 101);
    for (name, value) in [
        ("connection", "upgrade"),
        ("upgrade", "WebSocket"),
        ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
    ] {
        assert_eq!(field(&head, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(client.exact(5).await, b"first");
    assert_eq!(server.exact(5).await, b"early");
    let large = vec![b'x'; 1 << 20];
    let ((), got) = tokio::join!(client.send(&large), server.exact(large.len()));
    assert_eq!(got, large);
    let ((), got) = tokio::join!(server.send(&large), client.exact(large.len()));
    assert_eq!(got, large);
    // Each side learns of the other's end.
    client.shutdown().await;
    server.closed().await;
    server.send("last").await;
    drop(server);
    assert_eq!(client.rest().await, b"last");
}

#[tokio::test]
async fn an_upgrade_may_be_refused() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client.send(UPGRADE).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server
        .send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        .await;
    let (head, body) = client.answer().await;
    assert_eq!((status(&head), &*body), (403, "no"));
    client
        .send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .await;
    server.head().await;
    server.send(OK).await;
    assert_eq!(client.answer().await.1, "ok");
}

#[tokio::test]
async fn requests_that_are_none_do_not_upgrade() {
    for request in [
        UPGRADE.replace("\r\n\r\n", "\r\nContent-Length: 2\r\n\r\nab"),
        UPGRADE.replace(
            "\r\n\r\n",
            "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        UPGRADE.replace("Upgrade: websocket", "Upgrade: h2c"),
        UPGRADE.replace("Upgrade: websocket", "Upgrade: websocket, HTTP/2.0"),
        UPGRADE.replace("keep-alive, Upgrade", "keep-alive"),
        UPGRADE.replace("HTTP/1.1", "HTTP/1.0"),
    ] {
        let upstream = Upstream::bind().await;
        let world = World::new(&upstream.site());
        let mut client = world.connect().await;
        client.send(&request).await;
        let mut server = upstream.accept().await;
        let head = server.head().await;
        assert_eq!(field(&head, "upgrade"), None, "{request}");
        server.send(format!("{SWITCH}{OK}")).await;
        assert_eq!(status(&client.head().await), 502, "{request}");
        let rest = server.rest().await;
        assert!(rest.is_empty() || rest == b"ab" || rest == b"0\r\n\r\n");
    }
}

#[tokio::test]
async fn a_switch_to_something_else_is_502() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    for answer in [
        SWITCH.replace("WebSocket", "other"),
        SWITCH.replace("Upgrade: WebSocket\r\n", ""),
    ] {
        let mut client = world.connect().await;
        client.send(UPGRADE).await;
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(answer).await;
        assert_eq!(status(&client.head().await), 502);
        server.closed().await;
    }
}

/// Waits until the server has closed a connection that was opened just now: `idle` of its
/// limits has passed.
async fn idle_limit_passes(world: &World) {
    world.connect().await.closed().await;
}

/// The answer of HTTP has ended by then: the tunnel holds the permit.
#[tokio::test]
async fn an_upgraded_connection_counts_as_in_flight_until_its_end() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": "{}", "in_flight": 1, "paths": [{{"path": "/quick", "status": 410}}]}}"#,
        upstream.url()
    );
    let world = World::new(&site);
    let mut client = world.connect().await;
    client.send(UPGRADE).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(SWITCH).await;
    assert_eq!(status(&client.head().await), 101);
    let quick = "GET /quick HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let mut other = world.connect().await;
    for _ in 0..3 {
        other.send(quick).await;
        assert_eq!(status(&other.answer().await.0), 429);
        client.send("a").await;
        server.exact(1).await;
    }
    client.shutdown().await;
    server.closed().await;
    drop((client, server));
    let passed = async {
        loop {
            other.send(quick).await;
            if status(&other.answer().await.0) == 410 {
                break;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    patiently(passed).await;
}

#[tokio::test]
async fn silence_ends_an_upgraded_connection() {
    let upstream = Upstream::bind().await;
    let site = format!(
        r#"{{"upstream": {{"servers": ["http://{}"], "timeouts": {{"upgraded": "3s"}}}}}}"#,
        upstream.address()
    );
    // The limits of HTTP do not hold any more.
    let limits = Limits {
        idle: Duration::from_millis(200),
        body: Duration::from_millis(200),
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &site)]);
    let mut client = world.connect().await;
    client.send(UPGRADE).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(SWITCH).await;
    client.head().await;
    for byte in ["a", "b", "c"] {
        idle_limit_passes(&world).await;
        client.send(byte).await;
        server.exact(1).await;
    }
    server.closed().await;
    client.closed().await;
}

#[tokio::test]
async fn a_drain_ends_upgraded_connections() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    client.send(UPGRADE).await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(SWITCH).await;
    client.head().await;
    client.send("last").await;
    server.exact(4).await;
    world.running.shutdown.drain();
    // The application reads an end, not an error.
    assert_eq!(patiently(server.end()).await, None);
    client.closed().await;
    patiently(world.running.ended).await.unwrap().unwrap();
}

pub(crate) fn accept(head: &str) -> String {
    let key = field(head, "sec-websocket-key").unwrap();
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    BASE64.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref())
}

/// Answers a WebSocket's request with the switch.
pub(crate) fn switch(request: &str) -> String {
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept(request)
    )
}

pub(crate) fn connect() -> Request<crate::http2::Body> {
    let request = Request::builder()
        .method(Method::CONNECT)
        .uri(format!("https://{HOST}/chat"))
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat")
        .extension(Protocol::from_static("websocket"));
    request.body(empty()).unwrap()
}

#[tokio::test]
async fn websocket_over_http2_reaches_an_upstream_of_http1() {
    let upstream = Upstream::bind().await;
    let limits = Limits {
        idle: Duration::from_millis(200),
        ..LIMITS
    };
    let world = World::with(limits, &[(HOST, &upstream.site())]);
    let mut client = world.http2().await;
    let answer = client.send_request(connect());
    let mut server = upstream.accept().await;
    let head = server.head().await;
    assert!(head.starts_with("GET /chat HTTP/1.1\r\n"), "{head}");
    for (name, value) in [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("host", HOST),
        ("sec-websocket-version", "13"),
    ] {
        assert_eq!(field(&head, name).as_deref(), Some(value), "{name}");
    }
    server
        .send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Accept: {}\r\n\r\nfirst",
            accept(&head)
        ))
        .await;
    let answer = patiently(answer).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    assert_eq!(answer.headers()["sec-websocket-protocol"], "chat");
    assert_eq!(answer.headers().get("sec-websocket-accept"), None);
    let upgraded = patiently(hyper::upgrade::on(answer)).await.unwrap();
    let mut client = Wire::new(TokioIo::new(upgraded));
    assert_eq!(client.exact(5).await, b"first");
    // The connection stays while its stream is silent.
    for _ in 0..3 {
        idle_limit_passes(&world).await;
    }
    client.send("up").await;
    assert_eq!(server.exact(2).await, b"up");
    server.send("down").await;
    assert_eq!(client.exact(4).await, b"down");
    drop(server);
    client.closed().await;
}

#[tokio::test]
async fn a_drain_ends_websocket_over_http2() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.http2().await;
    let answer = client.send_request(connect());
    let mut server = upstream.accept().await;
    let head = server.head().await;
    server.send(switch(&head)).await;
    let answer = patiently(answer).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let upgraded = patiently(hyper::upgrade::on(answer)).await.unwrap();
    let mut websocket = Wire::new(TokioIo::new(upgraded));
    websocket.send("up").await;
    assert_eq!(server.exact(2).await, b"up");
    world.running.shutdown.drain();
    server.closed().await;
    websocket.closed().await;
    // No drain time is waited for, though the client keeps its side open.
    patiently(world.running.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn websocket_over_http2_needs_a_proper_upgrade() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.http2().await;
    for (answer, wanted) in [
        (SWITCH, 502),
        (OK, 502),
        ("HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n", 401),
    ] {
        let got = client.send_request(connect());
        let mut server = upstream.accept().await;
        server.head().await;
        server.send(answer).await;
        assert_eq!(patiently(got).await.unwrap().status(), wanted, "{answer}");
        drop(server);
    }
}

#[tokio::test]
async fn connection_names_all_that_belongs_to_it() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let mut client = world.connect().await;
    let options = "Connection: TE, Upgrade\r\nTE: trailers";
    client
        .send(UPGRADE.replace("Connection: keep-alive, Upgrade", options))
        .await;
    let head = upstream.accept().await.head().await;
    for (name, value) in [
        ("connection", "te, upgrade"),
        ("te", "trailers"),
        ("upgrade", "websocket"),
    ] {
        assert_eq!(field(&head, name).as_deref(), Some(value), "{name}");
    }
}

#[tokio::test]
async fn an_upgrade_towards_http2_asks_no_server() {
    let servers = r#"["h2c://127.0.0.1:1", "h2c://127.0.0.1:2"]"#;
    let world = World::new(&format!(r#"{{"upstream": {{"servers": {servers}}}}}"#));
    let mut client = world.connect().await;
    client.send(UPGRADE).await;
    assert_eq!(status(&client.head().await), 501);
    let retries = figure(&world.running, "sekisho_upstream_retries_total").await;
    assert_eq!(retries, 0);
}
