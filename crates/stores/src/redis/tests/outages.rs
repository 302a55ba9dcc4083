//! A server that is not there, stands still, or comes back.

use std::net::TcpListener;
use std::sync::Arc;

use super::*;
use crate::worker;

#[tokio::test]
async fn a_server_that_is_not_there_is_failed_at_once_and_then_found() {
    let mut server = RedisServer::start();
    let port = server.port();
    server.kill();
    let mut bench = Bench::on(server, "redis://127.0.0.1:PORT");
    let why = unavailable(bench.store.reach().await);
    assert!(why.contains("refused"), "{why}");
    for name in ["a.example", "b.example"] {
        let why = unavailable(bench.find(name).await);
        assert!(why.contains(&format!("127.0.0.1:{port}")), "{why}");
        // The kernel's word, no deadline's.
        assert!(why.contains("refused"), "{why}");
    }
    bench.server.restart();
    bench.put("a.example", Key::P256);
    healed(&bench.store, "a.example").await;
    bench.store.reach().await.unwrap();
}

#[tokio::test]
async fn a_restart_is_healed() {
    let mut bench = Bench::new();
    bench.put("a.example", Key::P256);
    bench.found("a.example").await;
    bench.server.kill();
    unavailable(bench.find("a.example").await);
    bench.server.restart();
    bench.put("a.example", Key::P256);
    healed(&bench.store, "a.example").await;
}

/// As a server does to a client that was idle for long.
#[tokio::test]
async fn a_closed_connection_is_not_noticed() {
    let bench = Bench::new();
    bench.put("a.example", Key::P256);
    for _ in 0..20 {
        bench.found("a.example").await;
        bench
            .server
            .cli(&["client", "kill", "type", "normal", "skipme", "yes"]);
        bench.found("a.example").await;
    }
}

#[tokio::test]
async fn one_that_stands_still_is_failed_within_the_deadline() {
    let bench = Bench::new();
    bench.put("a.example", Key::P256);
    let Bench { server, store, .. } = bench;
    let store = crate::tiers::Tiers::plain(Arc::new(store));
    found(find(&store, "a.example").await);
    server.pause();
    let begun = Instant::now();
    loop {
        match find(&store, "a.example").await {
            // It is known to be gone, without a word from the kernel.
            Err(StoreError::Unavailable(_)) => break,
            Err(StoreError::TimedOut(_)) => assert!(begun.elapsed() < PATIENCE),
            other => panic!("{other:?}"),
        }
    }
    server.resume();
    healed(&store, "a.example").await;
}

/// The server takes the connection and says nothing, or nothing of use.
#[tokio::test]
async fn a_peer_that_is_no_redis_is_an_error() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let store = open(&format!("redis://127.0.0.1:{port}"));
    let begun = Instant::now();
    let why = unavailable(store.reach().await);
    assert!(why.contains("did not answer within 1s"), "{why}");
    assert!(begun.elapsed() < Duration::from_secs(2));

    let web = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = web.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = web.accept().await.unwrap();
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut socket, answer)
                .await
                .unwrap();
        }
    });
    let store = open(&format!("redis://127.0.0.1:{port}"));
    unavailable(store.reach().await);
}

/// The runtime that serves may be busy or gone; the one that was given at the
/// start does the work.
#[test]
fn connections_belong_to_the_background_runtime() {
    let server = RedisServer::start();
    let background = tokio::runtime::Runtime::new().unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let url = RedisUrl::parse(&url, Path::new("/")).unwrap();
    let store = Redis::open(&url, background.handle()).unwrap();
    for _ in 0..3 {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let worker = builder.enable_time().build().unwrap();
        let answer = worker.block_on(find(&store, "a.example"));
        assert!(
            matches!(answer, Ok(Answer { found: None, .. })),
            "{answer:?}"
        );
    }
    drop(background);
    let worker = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    unavailable(worker.block_on(find(&store, "a.example")));
}

/// A worker has a connection of its own beside the first one. Each is made again
/// by itself; while one is gone, the other answers.
#[test]
fn a_thread_that_serves_has_a_connection_of_its_own() {
    let mut server = RedisServer::start();
    let background = tokio::runtime::Runtime::new().unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let url = RedisUrl::parse(&url, Path::new("/")).unwrap();
    let store = Redis::open(&url, background.handle()).unwrap();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let worker = builder.enable_all().build().unwrap();
    let serving = async {
        worker::register();
        absent(&store).await;
        connections(&server, &store, 2).await;
        // The older one of the two, so that each has its turn.
        for _ in 0..4 {
            let both = clients(&server);
            server.cli(&["client", "kill", "id", &both[0]]);
            absent(&store).await;
            connections(&server, &store, 2).await;
            assert_eq!(clients(&server)[0], both[1]);
        }
        let both = clients(&server);
        server.cli(&["client", "kill", "id", &both[0]]);
        server.cli(&["client", "kill", "id", &both[1]]);
        absent(&store).await;
        server.stop();
        unavailable(find(&store, "a.example").await);
        server.restart();
        connections(&server, &store, 2).await;
        absent(&store).await;
    };
    std::thread::scope(|scope| scope.spawn(|| worker.block_on(serving)).join().unwrap());
    // Without its runtime, the first one goes on alone.
    drop(worker);
    background.block_on(async {
        connections(&server, &store, 1).await;
        absent(&store).await;
    });
    drop(store);
    background.block_on(until(|| clients(&server).is_empty()));
}

/// A worker's own connection ends with the store, too.
#[test]
fn a_thread_that_serves_gives_up_its_connection_with_the_store() {
    let server = RedisServer::start();
    let background = tokio::runtime::Runtime::new().unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let url = RedisUrl::parse(&url, Path::new("/")).unwrap();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let worker = builder.enable_all().build().unwrap();
    let serving = async {
        worker::register();
        let store = Redis::open(&url, background.handle()).unwrap();
        connections(&server, &store, 2).await;
        drop(store);
        until(|| clients(&server).is_empty()).await;
    };
    std::thread::scope(|scope| scope.spawn(|| worker.block_on(serving)).join().unwrap());
}

async fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn absent(store: &Redis) {
    let answer = find(store, "a.example").await;
    assert!(
        matches!(answer, Ok(Answer { found: None, .. })),
        "{answer:?}"
    );
}

/// Waits until the store has so many connections, while it is asked.
async fn connections(server: &RedisServer, store: &Redis, number: usize) {
    let begun = Instant::now();
    while clients(server).len() != number {
        assert!(begun.elapsed() < Duration::from_secs(20), "{number}");
        let _ = find(store, "a.example").await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The ids of all connections but the asking one, oldest first.
fn clients(server: &RedisServer) -> Vec<String> {
    let list = server.cli(&["client", "list"]);
    let others = list.lines().filter(|line| !line.contains("cmd=client"));
    let ids = others.filter_map(|line| line.strip_prefix("id=")?.split(' ').next());
    ids.map(str::to_owned).collect()
}
