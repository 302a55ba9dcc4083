//! Tests the last flight of a connection.

#![allow(clippy::unwrap_used)]

mod common;

use common::{LIMITS, Running, Scripted, Setup, host, segments, start};
use sekisho_testkit::{Key, TestCa, client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";

fn running(ca: &TestCa) -> Running {
    let pair = ca.issue(&["a.example"], Key::P256);
    let host = host("a.example", &[(&pair, Key::P256)]);
    start(Scripted::new([host]), &Setup::limits(LIMITS))
}

async fn connect(running: &Running, ca: &TestCa) -> TlsStream<TcpStream> {
    let stream = client::connect(running.address, "a.example", client::config(ca)).await;
    stream.expect("a handshake")
}

/// Reads to close_notify, without which a read fails.
async fn answer(stream: &mut TlsStream<TcpStream>) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

#[tokio::test]
async fn the_last_bytes_and_the_end_are_one_segment() {
    let ca = TestCa::new();
    let running = running(&ca);
    let mut stream = connect(&running, &ca).await;
    let before = segments::received(stream.get_ref().0);
    stream.write_all(REQUEST).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 308"));
    // The kernel may acknowledge the request before the server has answered it.
    let received = segments::received(stream.get_ref().0) - before;
    assert!(received <= 2, "{received} segments");

    let mut refused = TcpStream::connect(running.address).await.unwrap();
    refused.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    refused.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 400"));
    // SYN and ACK, perhaps an ACK of the request, the answer.
    let received = segments::received(&refused);
    assert!(received <= 3, "{received} segments");
}

/// The client's close_notify may come while the server answers, and stay unread. In 100
/// connections it does at some of them.
#[tokio::test]
async fn a_last_answer_reaches_a_client_that_closes_its_side() {
    let ca = TestCa::new();
    let running = running(&ca);
    for _ in 0..100 {
        let mut stream = connect(&running, &ca).await;
        stream.write_all(REQUEST).await.unwrap();
        stream.shutdown().await.unwrap();
        assert!(answer(&mut stream).await.starts_with("HTTP/1.1 308"));
    }
}
