//! HTTP/2 upstreams that break the protocol or fall silent, and clients that leave them.

use std::time::Duration;

use tokio::net::TcpStream;

use crate::http2_heads::{HEADERS, NO_CONTENT, accept};
use crate::world::{HOST, Upstream, Wire, World, field, patiently, status};

const CLOSING: &str = "GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Makes a frame of stream 1, or of the connection for GOAWAY.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let stream = u8::from(kind != GOAWAY);
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, stream]);
    frame.extend(payload);
    frame
}

/// Has an upstream answer with these frames, and returns what the client gets before its
/// connection ends.
async fn answered(frames: &[Vec<u8>]) -> String {
    let (upstream, world) = start("").await;
    let answering = Box::pin(async {
        let mut server = accept(&upstream).await;
        server.send(frames.concat()).await;
        server
    });
    let (got, _server) = tokio::join!(Box::pin(world.exchange(CLOSING)), answering);
    got
}

async fn start(more: &str) -> (Upstream, World) {
    let upstream = Upstream::bind().await;
    let address = upstream.address();
    let site = format!(r#"{{"upstream": {{"servers": ["h2c://{address}"]{more}}}}}"#);
    (upstream, World::new(&site))
}

/// Reads until the proxy has reset so many streams.
async fn resets(server: &mut Wire<TcpStream>, count: usize) {
    let all = async {
        for _ in 0..count {
            while server.next_frame().await != RST_STREAM {}
        }
    };
    patiently(all).await;
}

#[tokio::test]
async fn an_upstream_that_never_answers_is_504_and_its_stream_is_reset() {
    let (upstream, world) = start(r#", "timeouts": {"first_byte": "300ms"}"#).await;
    let serving = Box::pin(async {
        let mut server = accept(&upstream).await;
        resets(&mut server, 1).await;
        server
    });
    let (got, _server) = tokio::join!(Box::pin(world.get(HOST)), serving);
    assert_eq!(got.0, 504);
}

#[tokio::test]
async fn a_stream_that_the_upstream_resets_is_502() {
    // PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL.
    for code in [1, 2, 7, 8] {
        let reset = frame(RST_STREAM, 0, &[0, 0, 0, code]);
        assert_eq!(status(&answered(&[reset]).await), 502, "{code}");
    }
}

#[tokio::test]
async fn goaway_ends_the_requests_that_it_leaves_out_alone() {
    // The last stream, and NO_ERROR.
    let goaway = |last: u8| frame(GOAWAY, 0, &[0, 0, 0, last, 0, 0, 0, 0]);
    let done = NO_CONTENT.to_vec();
    assert_eq!(status(&answered(&[goaway(0)]).await), 502);
    assert_eq!(status(&answered(&[goaway(1), done]).await), 204);
}

#[tokio::test]
async fn requests_after_goaway_take_a_new_connection() {
    let (upstream, world) = start("").await;
    for _ in 0..2 {
        let serving = Box::pin(async {
            let mut server = accept(&upstream).await;
            let goaway = frame(GOAWAY, 0, &[0, 0, 0, 1, 0, 0, 0, 0]);
            server.send([&goaway, NO_CONTENT].concat()).await;
            server
        });
        let (got, _server) = tokio::join!(Box::pin(world.get(HOST)), serving);
        assert_eq!(got.0, 204);
    }
}

#[tokio::test]
async fn an_answer_against_its_length_never_looks_whole() {
    // `:status: 200`, `content-length: 5`.
    let head = frame(HEADERS, END_HEADERS, b"\x88\x0f\x0d\x015");
    for data in ["abc", "abcdefg"] {
        let data = frame(DATA, END_STREAM, data.as_bytes());
        let got = answered(&[head.clone(), data]).await;
        if status(&got) == 200 {
            let (head, body) = got.split_once("\r\n\r\n").unwrap();
            assert_eq!(field(head, "content-length").as_deref(), Some("5"));
            assert!(body.len() < 5, "{got}");
        } else {
            assert_eq!(status(&got), 502, "{got}");
        }
    }
    // The lie of a head without a body.
    let alone = frame(HEADERS, END_HEADERS | END_STREAM, b"\x88\x0f\x0d\x015");
    let got = answered(&[alone]).await;
    assert!(status(&got) == 502 || got.ends_with("\r\n\r\n"), "{got}");
}

/// Makes the frames of a head with one field of this length.
fn long_head(length: usize) -> Vec<u8> {
    let mut block = b"\x88\x00\x01x\x7f".to_vec();
    let mut rest = length - 127;
    while rest > 127 {
        block.push(u8::try_from(rest % 128).unwrap() | 128);
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
    block.resize(block.len() + length, b'x');
    let (first, others) = block.split_at(16_384);
    let mut frames = frame(HEADERS, END_STREAM, first);
    let mut others = others.chunks(16_384).peekable();
    while let Some(other) = others.next() {
        const CONTINUATION: u8 = 9;
        let flags = if others.peek().is_none() {
            END_HEADERS
        } else {
            0
        };
        frames.extend(frame(CONTINUATION, flags, other));
    }
    frames
}

#[tokio::test]
async fn a_head_over_64_kib_is_502() {
    let got = answered(&[long_head(60 << 10)]).await;
    assert_eq!(status(&got), 200);
    assert_eq!(field(&got, "x").unwrap().len(), 60 << 10);
    for length in [65 << 10, 1 << 20] {
        let got = answered(&[long_head(length)]).await;
        assert_eq!(status(&got), 502, "{got:.100}");
    }
}

#[tokio::test]
async fn a_switch_of_protocols_over_http2_is_502() {
    // RFC 9113, section 8.6.
    let switch = frame(HEADERS, END_HEADERS, b"\x08\x03101");
    let ended = frame(HEADERS, END_HEADERS | END_STREAM, b"\x08\x03101");
    let data = frame(DATA, END_STREAM, b"abc");
    for frames in [vec![switch, data], vec![ended]] {
        let got = answered(&frames).await;
        assert_eq!(status(&got), 502, "{got}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_resets_its_stream_at_the_upstream() {
    let (upstream, world) = start("").await;
    // Before the head, and within the body.
    for frames in [vec![], frame(HEADERS, END_HEADERS, b"\x88")] {
        let mut client = world.connect().await;
        client.send(CLOSING).await;
        let mut server = accept(&upstream).await;
        server.send(&frames).await;
        if !frames.is_empty() {
            client.head().await;
        }
        drop(client);
        resets(&mut server, 1).await;
    }
}

#[tokio::test]
async fn a_client_of_http2_that_closes_resets_all_of_its_streams() {
    let (upstream, world) = start("").await;
    let mut client = world.raw_http2().await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in [1, 3, 5] {
        // GET, https, `/`, and the authority.
        let mut head = frame(
            HEADERS,
            END_HEADERS | END_STREAM,
            b"\x82\x87\x84\x01\x09a.example",
        );
        head[8] = stream;
        bytes.extend(head);
    }
    client.send(bytes).await;
    let mut server = accept(&upstream).await;
    patiently(async {
        for _ in 0..2 {
            while server.next_frame().await != HEADERS {}
        }
    })
    .await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(client);
    resets(&mut server, 3).await;
}
