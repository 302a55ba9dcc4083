//! `redis+cluster://`

use super::*;

#[tokio::test]
async fn keys_are_read_with_parallel_gets() {
    let server = RedisServer::start_cluster();
    let bench = Bench::on(server, "redis+cluster://127.0.0.1:PORT");
    bench.store.reach().await.unwrap();
    let pair = bench.put("a.example", Key::P256);
    let found = bench.found("a.example").await;
    assert_eq!(found.credentials[0].chain, pair.chain);
    assert!(bench.absent("b.example").await);
    bench.server.cli(&["hset", "c.example.crt", "f", "v"]);
    bench.server.cli(&["hset", "c.example.key", "f", "v"]);
    let why = bench.corrupt("c.example").await;
    assert!(why.contains("c.example.crt holds no string"), "{why}");
    bench.server.cli(&["del", "a.example.key"]);
    let why = bench.corrupt("a.example").await;
    assert!(why.contains("a.example.key is missing"), "{why}");
    let stats = bench.server.cli(&["info", "commandstats"]);
    assert!(!stats.contains("cmdstat_mget"), "{stats}");
}

/// The map says one node, the keys have moved to another.
#[tokio::test]
async fn redirections_are_followed() {
    let [one, other] = [(); 2].map(|()| RedisServer::start_cluster_node());
    let port = other.port().to_string();
    one.cli(&["cluster", "addslotsrange", "0", "16383"]);
    one.cli(&["cluster", "meet", "127.0.0.1", &port, &other.bus_port()]);
    one.wait_for(&["cluster", "info"], "cluster_known_nodes:2");
    one.wait_for(&["cluster", "info"], "cluster_state:ok");
    other.wait_for(&["cluster", "info"], "cluster_state:ok");
    let bench = Bench::on(one, "redis+cluster://127.0.0.1:PORT");
    bench.put("a.example", Key::P256);
    bench.found("a.example").await;

    let (one, id) = (&bench.server, other.cli(&["cluster", "myid"]));
    let mine = one.cli(&["cluster", "myid"]);
    for key in ["a.example.crt", "a.example.key"] {
        let slot = one.cli(&["cluster", "keyslot", key]);
        other.cli(&["cluster", "setslot", &slot, "importing", &mine]);
        one.cli(&["cluster", "setslot", &slot, "migrating", &id]);
        one.cli(&["migrate", "127.0.0.1", &port, key, "0", "5000"]);
        // Half moved: ASK for what is there already.
        bench.found("a.example").await;
        for node in [&other, one] {
            node.cli(&["cluster", "setslot", &slot, "node", &id]);
        }
        // Wholly moved: MOVED until the map is renewed.
        bench.found("a.example").await;
    }
    let stats = other.cli(&["info", "commandstats"]);
    assert!(stats.contains("cmdstat_asking"), "{stats}");
    assert!(stats.contains("cmdstat_get"), "{stats}");
}

#[tokio::test]
async fn a_node_that_comes_back_is_used_again() {
    let server = RedisServer::start_cluster();
    let mut bench = Bench::on(server, "redis+cluster://127.0.0.1:PORT");
    bench.put("a.example", Key::P256);
    bench.found("a.example").await;
    bench.server.kill();
    unavailable(bench.find("a.example").await);
    bench.server.restart();
    bench
        .server
        .wait_for(&["cluster", "info"], "cluster_state:ok");
    bench.put("a.example", Key::P256);
    healed(&bench.store, "a.example").await;
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let single = RedisServer::start();
    let port = single.port();
    let why = unavailable(
        open(&format!("redis+cluster://127.0.0.1:{port}"))
            .reach()
            .await,
    );
    assert!(why.contains("cluster support disabled"), "{why}");
    let node = RedisServer::start_cluster_node();
    let store = open(&format!("redis+cluster://127.0.0.1:{}", node.port()));
    let why = unavailable(store.reach().await);
    assert!(why.contains("no node serves any slot"), "{why}");
    // A node of a cluster that is taken for a single server.
    let node = RedisServer::start_cluster();
    let store = open(&format!("redis://127.0.0.1:{}", node.port()));
    let why = unavailable(find(&store, "a.example").await);
    assert!(why.contains("write redis+cluster://"), "{why}");
}
