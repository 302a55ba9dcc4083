//! Measures the memory of an idle connection.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Scripted, Setup, host, start};
use sekisho_server::metrics::Metrics;
use sekisho_testkit::{Key, TestCa, client};
use tikv_jemalloc_ctl::{epoch, stats};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Disables jemalloc's thread caches, which would count as allocated.
#[expect(
    unsafe_code,
    reason = "the allocator finds its settings by their symbol"
)]
// SAFETY: the symbol is jemalloc's, declared as a pointer to characters that
// end with a NUL, and this crate defines it nowhere else.
#[unsafe(export_name = "malloc_conf")]
static MALLOC_CONF: &[u8; 13] = b"tcache:false\0";

const COUNT: usize = 200;
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";

/// Bytes of an idle HTTP/1.1 connection, with the client's bare socket in this
/// process.
///
/// 4 KiB of them are rustls's read buffer, whose page the system has back.
const MAX_PER_CONNECTION: usize = 10 << 10;

/// The only test of this binary: the allocator's statistics cover the process.
#[tokio::test]
async fn an_idle_connection_holds_no_buffers_of_http() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let running = start(
        Scripted::new([host("a.example", &[(&pair, Key::P256)])]),
        &Setup::default(),
    );
    let connect = async || {
        let config = client::config(&ca);
        let stream = client::connect(running.address, "a.example", config).await;
        let mut stream = stream.unwrap();
        for _ in 0..2 {
            stream.write_all(REQUEST).await.unwrap();
            answer(&mut stream).await;
        }
        stream
    };
    // Keeps a client's socket, and drops its TLS state.
    let bare = async || connect().await.into_inner().0;
    let mut sockets = Vec::with_capacity(COUNT);
    sockets.push(bare().await);
    let before = allocated();
    for _ in 0..COUNT {
        sockets.push(bare().await);
    }
    let each = || allocated().saturating_sub(before) / COUNT;
    parks(&running.metrics, COUNT + 1).await;
    println!("{} bytes each", each());
    assert!(each() <= MAX_PER_CONNECTION, "{} bytes each", each());

    // Connections that wake at once give back what they took.
    let mut streams = Vec::with_capacity(COUNT);
    for _ in 0..COUNT {
        streams.push(connect().await);
    }
    parks(&running.metrics, COUNT * 2 + 1).await;
    let before = allocated();
    for stream in &mut streams {
        stream.write_all(REQUEST).await.unwrap();
        stream.flush().await.unwrap();
    }
    for stream in &mut streams {
        answer(stream).await;
    }
    parks(&running.metrics, COUNT * 2 + 1).await;
    let more = allocated().saturating_sub(before) / COUNT;
    assert!(more < 64, "{more} bytes each");
    let open = running.metrics.connections_open();
    assert_eq!(open, u64::try_from(COUNT * 2 + 1).unwrap());
}

/// Reads one answer without a body.
async fn answer(stream: &mut TlsStream<TcpStream>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 308"));
}

/// Waits until this many connections are parked.
async fn parks(metrics: &Metrics, count: usize) {
    let parked = async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while metrics.connections_parked() < count as u64 {
            look.tick().await;
        }
    };
    let parked = tokio::time::timeout(Duration::from_secs(20), parked).await;
    parked.expect("in time");
}

fn allocated() -> usize {
    epoch::advance().unwrap();
    stats::allocated::read().unwrap()
}
