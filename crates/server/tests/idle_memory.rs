//! Measures the memory of an idle connection.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::Duration;

use common::{Scripted, Setup, host, start};
use sekisho_testkit::{Key, TestCa, client};
use tikv_jemalloc_ctl::{epoch, stats};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// Bytes of an idle HTTP/1.1 connection, with the client's bare socket in this
/// process.
const MAX_PER_CONNECTION: usize = 12 << 10;

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
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        for _ in 0..2 {
            stream.write_all(request).await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            assert!(head.starts_with(b"HTTP/1.1 308"));
        }
        // Keeps the client's socket, and drops its TLS state.
        stream.into_inner().0
    };
    let mut sockets = Vec::with_capacity(COUNT);
    sockets.push(connect().await);
    let before = allocated();
    for _ in 0..COUNT {
        sockets.push(connect().await);
    }
    let each = || allocated().saturating_sub(before) / COUNT;
    let parked = async {
        let mut look = tokio::time::interval(Duration::from_millis(20));
        while each() > MAX_PER_CONNECTION {
            look.tick().await;
        }
    };
    let parked = tokio::time::timeout(Duration::from_secs(10), parked).await;
    assert!(parked.is_ok(), "{} bytes each", each());
    println!("{} bytes each", each());
    assert_eq!(
        running.metrics.connections_open(),
        u64::try_from(COUNT + 1).unwrap()
    );
}

fn allocated() -> usize {
    epoch::advance().unwrap();
    stats::allocated::read().unwrap()
}
