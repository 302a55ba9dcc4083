//! `redis+sentinel://`

use super::*;

#[tokio::test]
async fn the_master_is_asked_for_and_followed() {
    let mut first = RedisServer::start();
    let sentinel = RedisServer::start_sentinel(&first, "main");
    let url = format!(
        "redis+sentinel://127.0.0.1:1,127.0.0.1:{}/main/2",
        sentinel.port()
    );
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let put = |server: &RedisServer| {
        for (key, pem) in [("crt", pair.chain_pem()), ("key", pair.key_pem())] {
            server.cli(&["-n", "2", "set", &format!("a.example.{key}"), &pem]);
        }
    };
    put(&first);
    let store = open(&url);
    store.reach().await.unwrap();
    assert_eq!(found(find(&store, "a.example").await).credentials.len(), 1);

    // Another one takes over.
    let second = RedisServer::start();
    put(&second);
    sentinel.cli(&["sentinel", "remove", "main"]);
    let port = second.port().to_string();
    sentinel.cli(&["sentinel", "monitor", "main", "127.0.0.1", &port, "1"]);
    first.kill();
    healed(&store, "a.example").await;
    assert!(second.cli(&["client", "list"]).lines().count() > 1);
}

/// No upstream of a record may have one of their ports.
#[tokio::test]
async fn the_nodes_that_a_sentinel_leads_to_are_announced() {
    let master = RedisServer::start();
    let of = format!("127.0.0.1 {}", master.port());
    let replica = RedisServer::start_with(&["--replicaof", &of], &[]);
    replica.wait_for(&["info", "replication"], "master_link_status:up");
    let sentinel = RedisServer::start_sentinel(&master, "main");
    let port = replica.port().to_string();
    sentinel.wait_for(&["sentinel", "replicas", "main"], &port);
    let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    let url = RedisUrl::parse(&url, Path::new("/")).unwrap();
    let mut ports = url.announced().subscribe();
    let store = Redis::open(&url, &Handle::current()).unwrap();
    store.reach().await.unwrap();
    let of = [&master, &replica].map(RedisServer::port);
    let awaited = ports.wait_for(|known| of.iter().all(|port| known.contains(port)));
    tokio::time::timeout(PATIENCE, awaited)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn errors_name_what_is_wrong() {
    let server = RedisServer::start();
    let sentinel = RedisServer::start_sentinel(&server, "main");
    let reached = async |port: u16, name: &str| {
        let store = open(&format!("redis+sentinel://127.0.0.1:{port}/{name}"));
        unavailable(store.reach().await)
    };
    let why = reached(sentinel.port(), "other").await;
    assert!(why.contains("knows no master \"other\""), "{why}");
    let why = reached(server.port(), "main").await;
    assert!(why.contains("unknown command"), "{why}");

    // A sentinel that was cut off names one that is a master no more.
    let port = server.port().to_string();
    let replica = RedisServer::start_with(&["--replicaof", &format!("127.0.0.1 {port}")], &[]);
    let late = RedisServer::start_sentinel(&replica, "late");
    let why = reached(late.port(), "late").await;
    assert!(why.contains("is no master"), "{why}");
}
