//! Tests connections of HTTP/1.1 that wait for their next request without buffers.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;

mod ends;

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use common::{LIMITS, Running, Scripted, Setup, host, start};
use http_body_util::Empty;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use sekisho_server::Limits;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
/// Longer than a busy machine takes for what happens at once.
const LONG: Duration = Duration::from_secs(20);

/// Server with one host, and its clients.
struct Fixture {
    ca: TestCa,
    pair: Pair,
    running: Running,
}

impl Fixture {
    fn new(limits: Limits) -> Self {
        let ca = TestCa::new();
        let pair = ca.issue(&["a.example"], Key::P256);
        let found = host("a.example", &[(&pair, Key::P256)]);
        let running = start(Scripted::new([found]), &Setup::limits(limits));
        Self { ca, pair, running }
    }

    async fn connect(&self, config: ClientConfig) -> TlsStream<TcpStream> {
        let stream = client::connect(self.running.address, "a.example", config).await;
        stream.expect("a handshake")
    }

    /// Makes a connection that has had one answer and is parked, the only one that is.
    async fn parked(&self, config: ClientConfig) -> TlsStream<TcpStream> {
        let mut stream = self.connect(config).await;
        assert_eq!(ask(&mut stream).await, 308);
        self.parks(1).await;
        stream
    }

    /// Configurations of clients of both versions of TLS.
    fn versions(&self) -> [ClientConfig; 2] {
        [client::config(&self.ca), client::config_tls12(&self.ca)]
    }

    /// Waits until this many connections are parked.
    async fn parks(&self, count: u64) {
        until(|| self.running.metrics.connections_parked() == count).await;
    }

    /// Waits until no connection is open.
    async fn closes_all(&self) {
        until(|| self.running.metrics.connections_open() == 0).await;
        assert_eq!(self.running.metrics.connections_parked(), 0);
    }
}

async fn until(holds: impl Fn() -> bool) {
    let look = async {
        let mut look = tokio::time::interval(Duration::from_millis(2));
        while !holds() {
            look.tick().await;
        }
    };
    timeout(LONG, look).await.expect("in time");
}

/// Asks, and returns the status.
async fn ask(stream: &mut TlsStream<TcpStream>) -> u16 {
    stream.write_all(REQUEST).await.unwrap();
    stream.flush().await.unwrap();
    answer(stream).await
}

/// Reads one answer without a body, and returns its status.
async fn answer(stream: &mut TlsStream<TcpStream>) -> u16 {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(LONG, stream.read_u8()).await.expect("in time");
        head.push(byte.expect("an answer"));
    }
    String::from_utf8(head).unwrap()[9..12].parse().unwrap()
}

/// Waits for the end of the connection, and tells whether close_notify comes first.
async fn is_closed_politely(stream: &mut TlsStream<TcpStream>) -> bool {
    let mut rest = Vec::new();
    let read = timeout(LONG, stream.read_to_end(&mut rest)).await;
    read.expect("in time").is_ok() && rest.is_empty()
}

/// Encrypts the next request.
fn encrypted(stream: &mut TlsStream<TcpStream>) -> Vec<u8> {
    let tls = stream.get_mut().1;
    tls.writer().write_all(REQUEST).unwrap();
    let mut records = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut records).unwrap();
    }
    records
}

#[tokio::test]
async fn a_request_wakes_a_connection_and_it_parks_again() {
    let fixture = Fixture::new(LIMITS);
    for config in fixture.versions() {
        let mut stream = fixture.parked(config).await;
        for _ in 0..2 {
            assert_eq!(ask(&mut stream).await, 308);
            assert_eq!(fixture.running.metrics.connections_parked(), 0);
            fixture.parks(1).await;
        }
        drop(stream);
        fixture.closes_all().await;
    }
}

#[tokio::test]
async fn no_byte_of_a_request_is_lost() {
    let fixture = Fixture::new(LIMITS);
    for config in fixture.versions() {
        let mut stream = fixture.parked(config).await;
        stream.get_mut().0.set_nodelay(true).unwrap();
        // A byte at a time.
        for byte in encrypted(&mut stream) {
            stream.get_mut().0.write_all(&[byte]).await.unwrap();
        }
        assert_eq!(answer(&mut stream).await, 308);
        // The first bytes of a record wake the connection, which parks again with them.
        for split in [1, 5, 30] {
            fixture.parks(1).await;
            let record = encrypted(&mut stream);
            stream
                .get_mut()
                .0
                .write_all(&record[..split])
                .await
                .unwrap();
            until(|| fixture.running.metrics.connections_parked() == 0).await;
            fixture.parks(1).await;
            stream
                .get_mut()
                .0
                .write_all(&record[split..])
                .await
                .unwrap();
            assert_eq!(answer(&mut stream).await, 308, "{split}");
        }
        // Two requests in one record, and the first bytes of the next record behind them.
        fixture.parks(1).await;
        stream.get_mut().1.writer().write_all(REQUEST).unwrap();
        let two = encrypted(&mut stream);
        let third = encrypted(&mut stream);
        let socket = &mut stream.get_mut().0;
        socket
            .write_all(&[&two, &third[..9]].concat())
            .await
            .unwrap();
        assert_eq!(answer(&mut stream).await, 308);
        assert_eq!(answer(&mut stream).await, 308);
        fixture.parks(1).await;
        stream.get_mut().0.write_all(&third[9..]).await.unwrap();
        assert_eq!(answer(&mut stream).await, 308);
        drop(stream);
        fixture.closes_all().await;
    }
}

#[tokio::test]
async fn a_large_record_fits_behind_an_emptied_buffer() {
    let fixture = Fixture::new(LIMITS);
    for config in fixture.versions() {
        let mut stream = fixture.parked(config).await;
        // More than a record of 16 KiB.
        let field = "x".repeat(20_000);
        let request = format!("GET / HTTP/1.1\r\nHost: a.example\r\nX: {field}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(answer(&mut stream).await, 308);
        fixture.parks(1).await;
        assert_eq!(ask(&mut stream).await, 308);
        drop(stream);
        fixture.closes_all().await;
    }
}

#[tokio::test]
async fn keys_are_updated() {
    let fixture = Fixture::new(LIMITS);
    let mut stream = fixture.parked(client::config(&fixture.ca)).await;
    for _ in 0..3 {
        stream.get_mut().1.refresh_traffic_keys().unwrap();
        stream.flush().await.unwrap();
        until(|| fixture.running.metrics.connections_parked() == 0).await;
        // Asked for nothing, the connection parks with its new keys.
        fixture.parks(1).await;
        assert_eq!(ask(&mut stream).await, 308);
        fixture.parks(1).await;
    }
}

#[tokio::test]
async fn broken_records_end_the_connection() {
    let fixture = Fixture::new(LIMITS);
    for config in fixture.versions() {
        let mut stream = fixture.parked(config).await;
        let mut record = encrypted(&mut stream);
        *record.last_mut().unwrap() ^= 1;
        stream.get_mut().0.write_all(&record).await.unwrap();
        let error = timeout(LONG, stream.read_u8()).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("BadRecordMac"), "{error}");
        fixture.closes_all().await;
    }
}

#[tokio::test]
async fn many_wake_at_once() {
    let fixture = Fixture::new(LIMITS);
    let mut streams = Vec::new();
    for _ in 0..MANY {
        streams.push(fixture.connect(client::config(&fixture.ca)).await);
    }
    for round in 0..2 {
        fixture.parks(MANY).await;
        let asked = streams.into_iter().map(|mut stream| {
            tokio::spawn(async move {
                assert_eq!(ask(&mut stream).await, 308);
                stream
            })
        });
        let asked: Vec<_> = asked.collect();
        streams = Vec::new();
        for stream in asked {
            streams.push(stream.await.unwrap());
        }
        assert_eq!(fixture.running.metrics.connections_open(), MANY, "{round}");
    }
    fixture.parks(MANY).await;
    fixture.running.shutdown.drain();
    for mut stream in streams {
        assert!(is_closed_politely(&mut stream).await);
    }
    let Running { ended, metrics, .. } = fixture.running;
    timeout(LONG, ended).await.unwrap().unwrap().unwrap();
    assert_eq!(
        (metrics.connections_open(), metrics.connections_parked()),
        (0, 0)
    );
}

#[tokio::test]
async fn http2_is_answered_after_idleness() {
    let fixture = Fixture::new(LIMITS);
    let mut config = client::config(&fixture.ca);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TokioIo::new(fixture.connect(config).await);
    let handshake = http2::handshake(TokioExecutor::new(), stream).await;
    let (mut sender, connection) = handshake.unwrap();
    let connection = tokio::spawn(connection);
    // Parks after as long as the connection of HTTP/2 takes to give its memory back.
    let mut clock = fixture.connect(client::config(&fixture.ca)).await;
    for _ in 0..3 {
        let request = http::Request::get("https://a.example/").body(Empty::<Bytes>::new());
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        assert_eq!(answer.status(), 308);
        for _ in 0..3 {
            assert_eq!(ask(&mut clock).await, 308);
            fixture.parks(1).await;
        }
    }
    fixture.running.shutdown.drain();
    let ended = timeout(LONG, connection).await;
    ended.unwrap().unwrap().expect("GOAWAY, then the end");
}

/// Two descriptors each: fewer than a process may open by default.
const MANY: u64 = 400;
