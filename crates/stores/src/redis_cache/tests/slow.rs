//! A Redis that is slow, and not dead.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// The waits between attempts, at least 15, 30, 60, 120, 240, 480 and then 750 ms,
/// leave room for so many within [`WATCHED`]. Without them there are over 40.
const MAX_ATTEMPTS: usize = 9;
const WATCHED: Duration = Duration::from_secs(3);

/// Slow for a lookup, and answering in the background all the same.
#[tokio::test]
async fn redis_that_is_too_slow_for_lookups_is_tried_less_and_less() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let port = slowed(bench.redis.port()).await;
    let waits = Waits {
        get: Duration::from_millis(5),
        ..PATIENT
    };
    let server = bench
        .started_with(&format!("redis://127.0.0.1:{port}"), &waits)
        .await;
    server.follow().await;
    // Each attempt reads the log once, each lookup the catalog.
    let before = server.catalog.calls();
    let (begun, mut lookups) = (Instant::now(), 0);
    while begun.elapsed() < WATCHED {
        assert_eq!(server.serves("a.example").await, Some(1));
        assert!(!server.counts().is_usable());
        lookups += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let attempts = server.catalog.calls() - before - lookups;
    assert!((1..=MAX_ATTEMPTS * 2).contains(&attempts), "{attempts}");
}

/// A way to that port on which everything takes 20 ms longer.
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
        tokio::time::sleep(Duration::from_millis(10)).await;
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Quick when it is tried, and stuck at each page: used less and less often.
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
    let (begun, mut times) = (Instant::now(), 0);
    while begun.elapsed() < WATCHED {
        times += 1;
        let number = times as u64 % 50 + 2;
        bench.replace(1, number).await;
        bench.redis.pause();
        server.follow().await;
        bench.redis.resume();
        server.usable().await;
        assert_eq!(server.serves("a.example").await, Some(number));
    }
    assert!((1..=MAX_ATTEMPTS).contains(&times), "{times}");
}
