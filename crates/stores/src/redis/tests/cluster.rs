//! `redis+cluster://`

use super::*;

#[tokio::test]
async fn each_key_is_read_from_its_node() {
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
    // An empty value is no missing key.
    bench.put("a.example", Key::P256);
    bench.server.set("a.example.crt", "");
    let why = bench.corrupt("a.example").await;
    assert!(why.contains("no certificate"), "{why}");
}

#[tokio::test]
async fn a_value_over_the_bound_is_not_taken_in() {
    let server = RedisServer::start_cluster();
    let bench = Bench::on(server, "redis+cluster://127.0.0.1:PORT");
    bench.put("a.example", Key::P256);
    let size = (100 << 20).to_string();
    bench.server.cli(&["setrange", "a.example.crt", &size, "x"]);
    let sent = || {
        let stats = bench.server.cli(&["info", "stats"]);
        let mut lines = stats.lines();
        let bytes = lines.find_map(|line| line.strip_prefix("total_net_output_bytes:"));
        bytes.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = sent();
    let why = bench.corrupt("a.example").await;
    assert!(why.contains("a.example.crt has over 1 MiB"), "{why}");
    assert!(sent() - before < 8 << 20);
}

#[tokio::test]
async fn the_documented_access_list_is_enough() {
    let server = RedisServer::start_cluster();
    let rules = ["acl", "setuser", "ada", "on", ">pw", "~*.crt", "~*.key"];
    let commands = ["+getrange", "+exists", "+ping", "+asking", "+cluster|slots"];
    server.cli(&[&rules[..], &commands[..]].concat());
    let bench = Bench::on(server, "redis+cluster://ada:pw@127.0.0.1:PORT");
    bench.store.reach().await.unwrap();
    bench.put("a.example", Key::P256);
    bench.found("a.example").await;
    assert!(bench.absent("b.example").await);

    let port = bench.server.port();
    let store = open(&format!("redis+cluster://ada:guessed@127.0.0.1:{port}"));
    let why = unavailable(store.reach().await);
    assert!(why.contains(&format!("127.0.0.1:{port}")), "{why}");
    assert!(
        why.contains("authentication failed") && !why.contains("guessed"),
        "{why}"
    );
}

/// Three nodes serve a third of the slots each.
#[tokio::test]
async fn a_node_that_stands_still_takes_no_other_keys_away() {
    let nodes = [(); 3].map(|()| RedisServer::start_cluster_node());
    let slots = [("0", "5460"), ("5461", "10922"), ("10923", "16383")];
    for (node, (first, last)) in nodes.iter().zip(slots) {
        node.cli(&["cluster", "addslotsrange", first, last]);
        let port = node.port().to_string();
        nodes[0].cli(&["cluster", "meet", "127.0.0.1", &port, &node.bus_port()]);
    }
    for node in &nodes {
        node.wait_for(&["cluster", "info"], "cluster_slots_ok:16384");
        node.wait_for(&["cluster", "info"], "cluster_state:ok");
    }
    let [first, other, third] = nodes;
    let url = "redis+cluster://127.0.0.1:PORT?chain={{host}}.crt&key={{host}}.key";
    let bench = Bench::on(first, url);
    // The name's slot is below 5461, that of the wildcard above it beyond 10922.
    let slot = |key: &str| -> u16 {
        let slot = bench.server.cli(&["cluster", "keyslot", key]);
        slot.parse().unwrap()
    };
    let name = (0..)
        .map(|number| {
            (
                format!("a{number}.b{number}.example"),
                format!("*.b{number}.example"),
            )
        })
        .find(|(name, above)| slot(name) < 5461 && slot(above) > 10922);
    let name = name.unwrap().0;
    let pair = bench.ca.issue(&[&name], Key::P256);
    bench
        .server
        .set(&format!("{{{name}}}.crt"), &pair.chain_pem());
    bench
        .server
        .set(&format!("{{{name}}}.key"), &pair.key_pem());
    bench.found(&name).await;
    third.pause();
    let begun = Instant::now();
    for _ in 0..20 {
        bench.found(&name).await;
    }
    // Each of them would wait a second for the node that stands still.
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "before the nodes give it up"
    );
    // An absent name's wildcard lies there, so that nothing can be said of it.
    let (_, above) = name.split_once('.').unwrap();
    unavailable(bench.find(&format!("none.{above}")).await);
    third.resume();
    drop(other);
}

/// No upstream of a record may have one of their ports.
#[tokio::test]
async fn the_nodes_of_a_cluster_are_announced() {
    let [one, other] = [(); 2].map(|()| RedisServer::start_cluster_node());
    let port = other.port().to_string();
    one.cli(&["cluster", "addslotsrange", "0", "8191"]);
    other.cli(&["cluster", "addslotsrange", "8192", "16383"]);
    one.cli(&["cluster", "meet", "127.0.0.1", &port, &other.bus_port()]);
    for node in [&one, &other] {
        node.wait_for(&["cluster", "info"], "cluster_slots_ok:16384");
        node.wait_for(&["cluster", "info"], "cluster_state:ok");
    }
    let url = format!("redis+cluster://127.0.0.1:{}", one.port());
    let url = RedisUrl::parse(&url, Path::new("/")).unwrap();
    let mut ports = url.announced().subscribe();
    let store = Redis::open(&url, &Handle::current()).unwrap();
    store.reach().await.unwrap();
    let awaited = ports.wait_for(|known| known.contains(&other.port()));
    tokio::time::timeout(PATIENCE, awaited)
        .await
        .unwrap()
        .unwrap();
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
async fn errors_name_what_is_wrong() {
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
    assert!(why.contains("no node of the Cluster"), "{why}");
    // A node of a cluster that is taken for a single server.
    let node = RedisServer::start_cluster();
    let store = open(&format!("redis://127.0.0.1:{}", node.port()));
    let why = unavailable(find(&store, "a.example").await);
    assert!(why.contains("write redis+cluster://"), "{why}");
}
