//! Heads of HTTP/2 that are none, byte by byte.

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::world::{HOST, OK, Upstream, Wire, World, patiently};

/// Sends a head of literal fields, and returns the kind of the frame that
/// answers it: 1 HEADERS, 3 RST_STREAM, 7 GOAWAY.
async fn answered(world: &World, fields: &[(&str, &str)]) -> u8 {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.bytes());
        }
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    bytes.extend([0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    bytes.extend(block);
    let mut client = world.raw_http2().await;
    client.send(bytes).await;
    patiently(kind_of_answer(&mut client)).await
}

async fn kind_of_answer(client: &mut Wire<TlsStream<TcpStream>>) -> u8 {
    loop {
        let kind = client.next_frame().await;
        if matches!(kind, 1 | 3 | 7) {
            return kind;
        }
    }
}

/// A value with a space or tab at an end is malformed (RFC 9113, section 8.2.1).
#[tokio::test]
async fn padded_values_are_not_passed_on() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    for value in [" a", "a ", "\ta", "a\t", " "] {
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/"),
            (":authority", HOST),
            ("x-own", value),
        ];
        assert_eq!(answered(&world, &fields).await, 1, "{value:?}");
    }
    assert!(upstream.is_alone());
}

#[tokio::test]
async fn heads_that_are_none_are_not_passed_on() {
    let upstream = Upstream::bind().await;
    let world = World::new(&upstream.site());
    let own = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/"),
        (":authority", HOST),
    ];
    for (name, value) in [
        ("transfer-encoding", "chunked"),
        ("connection", "x-own"),
        ("keep-alive", "1"),
        ("proxy-connection", "1"),
        ("upgrade", "websocket"),
        ("te", "gzip"),
        ("x-own", "a\r\nb: c"),
        ("x-own", "a\nb"),
        ("x-own", "a\0b"),
        ("x own", "a"),
        ("X-Own", "a"),
        ("x-own:", "a"),
        ("", "a"),
        (":path", "/other"),
        (":unknown", "a"),
        ("host", "b.example"),
        ("content-length", "1"),
        ("content-length", "+0"),
    ] {
        let fields: Vec<_> = own.into_iter().chain([(name, value)]).collect();
        answered(&world, &fields).await;
        assert!(upstream.is_alone(), "{name:?}: {value:?}");
    }
    for path in ["", "x", "http://a.example/", "/a b", "/\r\n", "*"] {
        let fields = own.map(|(name, value)| (name, if name == ":path" { path } else { value }));
        answered(&world, &fields).await;
        assert!(upstream.is_alone(), "{path:?}");
    }
    // The helper's own head is passed on.
    let mut heads = upstream.answering(OK);
    assert_eq!(answered(&world, &own).await, 1);
    assert!(heads.recv().await.unwrap().starts_with("GET / "));
}

/// Accepts a connection of HTTP/2 without TLS, up to its request on stream 1.
pub(crate) async fn accept(upstream: &Upstream) -> Wire<TcpStream> {
    let mut server = upstream.accept().await;
    server.until("SM\r\n\r\n").await;
    // SETTINGS, and the acknowledgement of the client's.
    server.send([0, 0, 0, 4, 0, 0, 0, 0, 0]).await;
    server.send([0, 0, 0, 4, 1, 0, 0, 0, 0]).await;
    while server.next_frame().await != HEADERS {}
    server
}

pub(crate) const HEADERS: u8 = 1;
/// HEADERS on stream 1 with `:status: 103`.
pub(crate) const EARLY: &[u8] = b"\0\0\x05\x01\x04\0\0\0\x01\x08\x03103";
/// HEADERS on stream 1 with `:status: 204`, its last.
pub(crate) const NO_CONTENT: &[u8] = b"\0\0\x01\x01\x05\0\0\0\x01\x89";

#[tokio::test]
async fn informational_answers_over_http2_are_bounded() {
    let upstream = Upstream::bind().await;
    let world = World::new(&format!(
        r#"{{"upstream": "h2c://{}"}}"#,
        upstream.address()
    ));
    let answering = async {
        let mut server = accept(&upstream).await;
        server.send([&EARLY.repeat(8), NO_CONTENT].concat()).await;
        server
    };
    let (got, _server) = tokio::join!(world.get(HOST), answering);
    assert_eq!(got.0, 204);
}

#[tokio::test]
async fn an_http2_upstream_that_sends_informational_answers_for_ever_is_502() {
    let upstream = Upstream::bind().await;
    let world = World::new(&format!(
        r#"{{"upstream": "h2c://{}"}}"#,
        upstream.address()
    ));
    let flood = async {
        let mut server = accept(&upstream).await;
        let all = EARLY.repeat(1000);
        loop {
            server.send(&all).await;
            tokio::task::yield_now().await;
        }
    };
    let got = tokio::select! {
        got = world.get(HOST) => got,
        () = flood => unreachable!("it never ends"),
    };
    assert_eq!(got.0, 502);
}
