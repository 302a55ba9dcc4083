//! A Redis that is slow, and not dead.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const ATTEMPTS: u32 = 7;

/// Slow for a lookup, and answering in the background all the same.
#[tokio::test]
async fn redis_that_is_too_slow_for_look_ups_is_not_used() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let port = slowed(bench.redis.port()).await;
    let waits = Waits {
        get: Duration::from_millis(50),
        ..PATIENT
    };
    let server = bench
        .started_with(&format!("redis://127.0.0.1:{port}"), &waits)
        .await;
    server.follow().await;
    let begun = Instant::now();
    for _ in 0..ATTEMPTS {
        // Each attempt reads the log once.
        let before = server.catalog.calls();
        until("it is tried", || server.catalog.calls() > before).await;
        assert!(!server.counts().is_usable());
        assert_eq!(server.serves("a.example").await, Some(1));
    }
    // Two round trips each, and longer waits between them each time.
    let waits = Duration::from_millis(20 + 40 + 80 + 160 + 320 + 640) * 3 / 4;
    let least = waits + Duration::from_millis(200) * (ATTEMPTS - 1);
    assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
}

/// A way to that port on which everything takes 200 ms longer.
async fn slowed(port: u16) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::spawn(pass(from_client, to_server));
            tokio::spawn(pass(from_server, to_client));
        }
    });
    own
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Quick when it is tried, and stuck at each page: tried less and less often.
#[tokio::test]
async fn redis_that_fails_again_and_again_is_left_alone() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let server = bench
        .started(&Waits {
            advance: Duration::from_millis(20),
            ..PATIENT
        })
        .await;
    server.follow().await;
    server.usable().await;
    let begun = Instant::now();
    for number in 2..7 {
        bench.replace(1, number).await;
        bench.redis.pause();
        server.follow().await;
        bench.redis.resume();
        server.usable().await;
        assert_eq!(server.serves("a.example").await, Some(number));
    }
    let waits = Duration::from_millis(20 + 40 + 80 + 160 + 320) * 3 / 4;
    assert!(begun.elapsed() >= waits);
}
