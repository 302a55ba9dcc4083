//! Tests how connections end: by their limits, and when the server drains.

#![allow(clippy::unwrap_used)]

mod common;

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use common::{LIMITS, Running, Scripted, Setup, host, start};
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_server::Limits;
use sekisho_server::Phase;
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Longer than a busy machine takes for what ends at once.
const DRAIN: Duration = Duration::from_secs(40);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

fn running(ca: &TestCa, limits: Limits) -> Running {
    let pair = ca.issue(&["a.example", "b.example"], Key::P256);
    let hosts = ["a.example", "b.example"].map(|name| host(name, &[(&pair, Key::P256)]));
    start(Scripted::new(hosts), &Setup::limits(limits))
}

async fn connect(running: &Running, ca: &TestCa, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
    let mut config = client::config(ca);
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let stream = client::connect(running.address, "a.example", config).await;
    stream.expect("a handshake")
}

/// Reads one answer without a body.
async fn answer(stream: &mut TlsStream<TcpStream>) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    String::from_utf8(head).unwrap()
}

/// Waits for the end of the connection, and tells whether close_notify comes first.
async fn is_closed_politely(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.is_ok()
}

#[tokio::test]
async fn an_idle_connection_is_closed_politely() {
    let ca = TestCa::new();
    let running = running(
        &ca,
        Limits {
            idle: Duration::from_secs(1),
            ..LIMITS
        },
    );
    for alpn in [&b"http/1.1"[..], b"h2"] {
        let begun = Instant::now();
        let mut stream = connect(&running, &ca, &[alpn]).await;
        assert!(is_closed_politely(&mut stream).await);
        let after = begun.elapsed();
        assert!((900..9000).contains(&after.as_millis()), "{after:?}");
    }
    let mut stream = connect(&running, &ca, &[]).await;
    let begun = Instant::now();
    stream.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 308"));
    assert!(is_closed_politely(&mut stream).await);
    let after = begun.elapsed();
    assert!(after.as_millis() >= 900, "{after:?}");
}

#[tokio::test]
async fn a_dribbled_head_meets_its_limit() {
    let ca = TestCa::new();
    let running = running(
        &ca,
        Limits {
            head: Duration::from_millis(500),
            ..LIMITS
        },
    );
    let mut stream = connect(&running, &ca, &[]).await;
    let begun = Instant::now();
    stream.write_all(REQUEST).await.unwrap();
    answer(&mut stream).await;
    let mut byte = tokio::time::interval(Duration::from_millis(50));
    let mut seen = [0];
    for sent in REQUEST.iter().chain(std::iter::repeat(&b'x')) {
        tokio::select! {
            ended = stream.read(&mut seen) => {
                assert!(!matches!(ended, Ok(1..)), "answered");
                break;
            }
            _ = byte.tick() => {}
        }
        if stream.write_all(&[*sent]).await.is_err() {
            break;
        }
    }
    let after = begun.elapsed().as_millis();
    assert!((450..9000).contains(&after), "{after}");
}

#[tokio::test]
async fn too_large_a_head_is_refused() {
    let ca = TestCa::new();
    let running = running(&ca, LIMITS);
    let mut stream = connect(&running, &ca, &[]).await;
    let huge = format!(
        "GET / HTTP/1.1\r\nHost: a.example\r\nX: {}\r\n\r\n",
        "x".repeat(200_000)
    );
    let _ = stream.write_all(huge.as_bytes()).await;
    let mut seen = String::new();
    let _ = stream.read_to_string(&mut seen).await;
    assert!(seen.starts_with("HTTP/1.1 431"), "{seen}");
}

#[tokio::test]
async fn a_head_has_at_most_100_fields() {
    let ca = TestCa::new();
    let running = running(&ca, LIMITS);
    for (fields, status) in [(100, "308"), (101, "431")] {
        let mut stream = connect(&running, &ca, &[]).await;
        let others = "X: x\r\n".repeat(fields - 1);
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\n{others}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = answer(&mut stream).await;
        assert_eq!(&answer[9..12], status, "{fields}");
    }
}

#[tokio::test]
async fn http2_serves_many_hosts_and_drains() {
    let ca = TestCa::new();
    let running = running(
        &ca,
        Limits {
            drain: DRAIN,
            ..LIMITS
        },
    );
    let stream = connect(&running, &ca, &[b"h2", b"http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut ask = async |name: &str| {
        let uri = format!("https://{name}/");
        let request = http::Request::get(uri).body(Empty::<Bytes>::new()).unwrap();
        sender
            .send_request(request)
            .await
            .map(|answer| answer.status())
    };
    for (name, status) in [("a.example", 308), ("b.example", 308), ("c.example", 421)] {
        assert_eq!(ask(name).await.unwrap(), status, "{name}");
    }
    running.shutdown.drain();
    assert_eq!(running.shutdown.phase(), Phase::Draining);
    connection.await.unwrap().expect("GOAWAY, then the end");
    assert!(ask("a.example").await.is_err());
    running.ended.await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn draining_finishes_what_is_begun() {
    let ca = TestCa::new();
    let running = running(
        &ca,
        Limits {
            drain: DRAIN,
            ..LIMITS
        },
    );
    let mut idle = connect(&running, &ca, &[]).await;
    idle.write_all(REQUEST).await.unwrap();
    answer(&mut idle).await;
    let mut fresh = connect(&running, &ca, &[]).await;
    // The answer to this request waits for the store.
    running.store.hold();
    let mut busy = connect(&running, &ca, &[]).await;
    let other = b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";
    busy.write_all(other).await.unwrap();
    while running.store.calls() < 2 {
        tokio::task::yield_now().await;
    }
    let begun = Instant::now();
    running.shutdown.drain();
    assert!(is_closed_politely(&mut idle).await);
    let after = begun.elapsed();
    assert!(after < DRAIN / 2, "{after:?}");
    // A client that has sent no request yet may still send its first one.
    fresh.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut fresh).await.starts_with("HTTP/1.1 308"));
    running.store.release(1);
    assert!(answer(&mut busy).await.starts_with("HTTP/1.1 308"));
    assert!(is_closed_politely(&mut fresh).await && is_closed_politely(&mut busy).await);
    running.ended.await.unwrap().unwrap();
}

#[tokio::test]
async fn draining_has_a_bound_and_a_second_signal_ends_at_once() {
    let ca = TestCa::new();
    for (drain, impatient) in [(500, false), (3_600_000, true)] {
        let drain = Duration::from_millis(drain);
        let running = running(&ca, Limits { drain, ..LIMITS });
        connect(&running, &ca, &[]).await;
        running.store.hold();
        let mut stuck = connect(&running, &ca, &[]).await;
        let other = b"GET / HTTP/1.1\r\nHost: b.example\r\n\r\n";
        stuck.write_all(other).await.unwrap();
        while running.store.calls() < 2 {
            tokio::task::yield_now().await;
        }
        let begun = Instant::now();
        running.shutdown.drain();
        if impatient {
            running.shutdown.end();
        }
        running.ended.await.unwrap().unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(!is_closed_politely(&mut stuck).await, "cut off");
    }
}

#[tokio::test]
async fn a_body_without_progress_meets_its_limit() {
    let ca = TestCa::new();
    let running = running(
        &ca,
        Limits {
            body: Duration::from_millis(500),
            ..LIMITS
        },
    );
    running.store.hold();
    running.store.release(1);
    let mut stream = connect(&running, &ca, &[]).await;
    let head = b"POST / HTTP/1.1\r\nHost: b.example\r\nContent-Length: 10\r\n\r\nx";
    let begun = Instant::now();
    stream.write_all(head).await.unwrap();
    // The answer waits for the store; the client sends no body either.
    is_closed_politely(&mut stream).await;
    let after = begun.elapsed();
    assert!((400..9000).contains(&after.as_millis()), "{after:?}");
}

#[tokio::test]
async fn a_client_that_resets_its_streams_gets_goaway() {
    let ca = TestCa::new();
    let running = running(&ca, LIMITS);
    let mut stream = connect(&running, &ca, &[b"h2"]).await;
    // GET, https, "/" and the authority (RFC 7541, appendix A).
    let head = [&[0x82, 0x87, 0x84, 0x41, 9][..], b"a.example"].concat();
    let mut attack = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    attack.extend(frame(4, 0, 0, &[]));
    for id in (1..2000).step_by(2) {
        attack.extend(frame(1, 5, id, &head));
        attack.extend(frame(3, 0, id, &[0, 0, 0, 8]));
    }
    let _ = stream.write_all(&attack).await;
    let mut seen = Vec::new();
    let _ = stream.read_to_end(&mut seen).await;
    let calm = [0, 0, 0, 11];
    let goaway = seen.windows(17).any(|w| w[3] == 7 && w[13..17] == calm);
    assert!(goaway, "GOAWAY with ENHANCE_YOUR_CALM");
}

#[tokio::test]
async fn each_socket_accepts_within_a_small_limit() {
    let ca = TestCa::new();
    let running = running(
        &ca,
        Limits {
            connections: 1,
            workers: 2,
            ..LIMITS
        },
    );
    // A connection is refused while the worker has one that has just ended.
    let served = async {
        let plain = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        for _ in 0..8 {
            // The kernel may choose any worker's socket.
            while client::connect(running.address, "a.example", client::config(&ca))
                .await
                .is_err()
            {}
            while !redirected(running.http, plain).await.unwrap_or(false) {}
        }
    };
    let served = tokio::time::timeout(Duration::from_secs(30), served);
    served.await.expect("each accepts");
}

async fn redirected(address: SocketAddr, request: &[u8]) -> io::Result<bool> {
    let mut socket = TcpStream::connect(address).await?;
    socket.write_all(request).await?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 308"))
}

/// An HTTP/2 frame (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, id: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&len[1..], &[kind, flags], &id.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Returns how long a connection lasts that sends `begin` and then pings, and
/// takes only what HTTP/2 sends without a window.
async fn life(mut stream: TlsStream<TcpStream>, begin: &[u8]) -> Duration {
    let begun = Instant::now();
    stream.write_all(begin).await.unwrap();
    let (mut from, mut to) = tokio::io::split(stream);
    let pings = async {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let _ = to.write_all(&frame(6, 0, 0, &[7; 8])).await;
        }
    };
    let mut seen = Vec::new();
    tokio::select! {
        _ = from.read_to_end(&mut seen) => {}
        () = pings => {}
        () = tokio::time::sleep(Duration::from_secs(20)) => {}
    }
    begun.elapsed()
}

#[tokio::test]
async fn an_http2_stream_without_progress_meets_its_limit() {
    let ca = TestCa::new();
    let limits = Limits {
        body: Duration::from_millis(500),
        idle: Duration::from_secs(1),
        ..LIMITS
    };
    let running = running(&ca, limits);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("index.html"), vec![b'x'; 1 << 20]).unwrap();
    let pair = ca.issue(&["a.example", "b.example"], Key::P256);
    let mut files = host("a.example", &[(&pair, Key::P256)]);
    files.record.site = Some(sekisho_certs::Site {
        format: 1,
        json: serde_json::json!({ "root": folder.path() })
            .to_string()
            .into(),
    });
    running.store.put(files);
    // A file, for which this client opens no window.
    let no_window = frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]);
    let get = [&[0x82, 0x87, 0x84, 0x41, 9][..], b"a.example"].concat();
    let begin = [PREFACE, &no_window, &frame(1, 5, 1, &get)].concat();
    let after = life(connect(&running, &ca, &[b"h2"]).await, &begin).await;
    assert!(
        (400..9000).contains(&after.as_millis()),
        "answer: {after:?}"
    );
    // A stalled answer over HTTP/1.1: the client does not read, and the
    // socket's buffers fill.
    let mut stream = connect(&running, &ca, &[b"http/1.1"]).await;
    let begun = Instant::now();
    stream.write_all(&REQUEST.repeat(64)).await.unwrap();
    let mut status = [0; 15];
    stream.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 200 OK");
    let gone = async {
        while running.metrics.connections_open() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(20), gone).await;
    gone.expect("a client that takes nothing is dropped");
    assert!(begun.elapsed().as_millis() >= 400, "{:?}", begun.elapsed());
    // A request whose body does not come while its answer waits.
    running.store.hold();
    let post = [&[0x83, 0x87, 0x84, 0x41, 9][..], b"b.example"].concat();
    let begin = [PREFACE, &frame(4, 0, 0, &[]), &frame(1, 4, 1, &post)].concat();
    let after = life(connect(&running, &ca, &[b"h2"]).await, &begin).await;
    assert!((400..9000).contains(&after.as_millis()), "body: {after:?}");
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
