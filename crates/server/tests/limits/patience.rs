//! Tests that slow clients, and half-closed ones, lose nothing.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::TcpSocket;

use super::frames::*;
use super::{Fixture, LIMITS, Limits};

#[tokio::test]
async fn a_half_close_behind_a_request_loses_no_answer() {
    let fixture = Fixture::new(LIMITS);
    for (path, len) in [("small", 60_000), ("large", 2 << 20)] {
        fixture.write(path, len);
        let mut stream = fixture.connect(b"http/1.1").await;
        let request = format!("GET /{path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        // close_notify, then FIN (RFC 8446, section 6.1).
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let head = answer
            .windows(4)
            .position(|end| end == b"\r\n\r\n")
            .unwrap();
        assert_eq!(answer.len() - head - 4, len, "HTTP/1.1, {path}");
    }
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    let begin = [preface(65_535), get(1, "a.example", "/small")].concat();
    sender.write_all(&begin).await.unwrap();
    sender.shutdown().await.unwrap();
    let frames = read_all(&mut receiver).await;
    let data = frames.iter().filter(|frame| frame.kind == DATA);
    let len: usize = data.map(|frame| frame.payload.len()).sum();
    assert_eq!(len, 60_000, "HTTP/2");
}

#[tokio::test]
async fn a_steady_slow_reader_gets_everything() {
    let fixture = Fixture::new(Limits {
        body: Duration::from_millis(500),
        ..LIMITS
    });
    fixture.write("large", 6 << 20);
    let socket = TcpSocket::new_v4().unwrap();
    // The kernel's buffers on the server's side take most of the rest.
    socket.set_recv_buffer_size(64 << 10).unwrap();
    let socket = socket.connect(fixture.running.address).await.unwrap();
    let mut stream = fixture.handshake(socket, b"http/1.1").await;
    let request = b"GET /large HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut pause = tokio::time::interval(Duration::from_millis(20));
    let mut piece = vec![0; 10 << 10];
    let mut len = 0;
    loop {
        pause.tick().await;
        match stream.read(&mut piece).await {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(error) => panic!("after {len} bytes: {error}"),
        }
    }
    assert!(len > 6 << 20, "{len}");
}

#[tokio::test]
async fn a_pause_within_and_between_requests_loses_nothing() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("page", 10);
    let mut stream = fixture.connect(b"http/1.1").await;
    let request = b"GET /page HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let (one, two) = request.split_at(20);
    // Longer than the idle time after which hyper is dropped.
    let mut pause = tokio::time::interval(Duration::from_millis(400));
    let parts = [&[request, one].concat()[..], two, request, one, two];
    for part in parts {
        pause.tick().await;
        stream.write_all(part).await.unwrap();
    }
    let mut answers = vec![0; 4 * 10];
    for answer in answers.chunks_mut(10) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 200"));
        stream.read_exact(answer).await.unwrap();
    }
    assert_eq!(answers, [b'x'; 40]);
}

#[tokio::test]
async fn a_request_is_read_to_its_end_before_its_answer() {
    let fixture = Fixture::new(LIMITS);
    fixture.write("page.html", 600);
    let (mut receiver, mut sender) = split(fixture.connect(b"h2").await);
    sender.write_all(&preface(65_535)).await.unwrap();
    let mut first = async |stream: u32, kinds: &[u8]| loop {
        let seen = read(&mut receiver).await.expect("a frame");
        if seen.stream == stream && kinds.contains(&seen.kind) {
            return seen;
        }
    };
    // Trailers must end the stream (RFC 9113, section 8.1).
    let trailers = frame(HEADERS, END_HEADERS, 1, &[0, 1, b'x', 1, b'y']);
    // Two such increments exceed 2^31 - 1 (RFC 9113, section 6.9.1).
    let update = frame(WINDOW_UPDATE, 0, 3, &[0x7f, 0xff, 0xff, 0xff]);
    let end = frame(DATA, END_STREAM, 5, b"body");
    let fields = fields("a.example", "/page.html", None);
    for (stream, rest) in [(1, trailers), (3, update.repeat(2)), (5, end)] {
        let begin = frame(HEADERS, END_HEADERS, stream, &fields);
        sender.write_all(&begin).await.unwrap();
        // The request's head is handled before the pong.
        sender.write_all(&frame(PING, 0, 0, &[7; 8])).await.unwrap();
        first(0, &[PING]).await;
        sender.write_all(&rest).await.unwrap();
        let answer = first(stream, &[HEADERS, RST_STREAM]).await;
        match stream {
            1 => assert_eq!(
                (answer.kind, answer.payload[3]),
                (RST_STREAM, PROTOCOL_ERROR)
            ),
            3 => assert_eq!(
                (answer.kind, answer.payload[3]),
                (RST_STREAM, FLOW_CONTROL_ERROR)
            ),
            _ => assert_eq!(answer.kind, HEADERS),
        }
    }
}
