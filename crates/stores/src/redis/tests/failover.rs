//! A master that is killed, and the replica that sentinels put in its place.

use super::*;

/// Both servers and the sentinel have passwords, and not the same one.
#[tokio::test]
async fn a_real_fail_over_is_followed() {
    let own = ["--requirepass", "m4ster", "--masterauth", "m4ster"];
    let cli = ["-a", "m4ster", "--no-auth-warning"];
    let mut master = RedisServer::start_with(&own, &cli);
    let to_master = format!("127.0.0.1 {}", master.port());
    let replica = [&own[..], &["--replicaof", &to_master]].concat();
    let replica = RedisServer::start_with(&replica, &cli);
    replica.wait_for(&["info", "replication"], "master_link_status:up");
    let sentinel = RedisServer::start_sentinel_with(
        &master,
        "main",
        &[
            "sentinel auth-pass main m4ster",
            "sentinel down-after-milliseconds main 300",
            "sentinel failover-timeout main 2000",
            "requirepass w4tch",
        ],
        &["-a", "w4tch", "--no-auth-warning"],
    );
    let url = format!(
        "redis+sentinel://:m4ster@127.0.0.1:{}/main?sentinel_password=w4tch",
        sentinel.port()
    );
    let ca = TestCa::new();
    let put = |server: &RedisServer, name: &str| {
        let pair = ca.issue(&[name], Key::P256);
        server.set(&format!("{name}.crt"), &pair.chain_pem());
        server.set(&format!("{name}.key"), &pair.key_pem());
    };
    put(&master, "a.example");
    let store = open(&url);
    assert_eq!(found(find(&store, "a.example").await).credentials.len(), 1);
    // The replica has what the master has, and the sentinel knows of it.
    replica.wait_for(&["exists", "a.example.crt", "a.example.key"], "2");
    sentinel.wait_for(&["sentinel", "master", "main"], "num-slaves\n1\n");

    master.kill();
    unavailable(find(&store, "a.example").await);
    // The sentinel closes all connections to the one that it promotes; it
    // names it when that is done.
    let named = ["sentinel", "get-master-addr-by-name", "main"];
    sentinel.wait_for(&named, &replica.port().to_string());
    healed(&store, "a.example").await;
    put(&replica, "b.example");
    assert_eq!(found(find(&store, "b.example").await).credentials.len(), 1);
    // The old one comes back, still a master by its own account until the
    // sentinel has told it: it is not gone back to.
    master.restart();
    put(&replica, "c.example");
    assert_eq!(found(find(&store, "c.example").await).credentials.len(), 1);
}

/// A sentinel that wants a password says so, and none is shown.
#[tokio::test]
async fn a_wrong_password_of_the_sentinel_is_named() {
    let master = RedisServer::start();
    let sentinel = RedisServer::start_sentinel_with(
        &master,
        "main",
        &["requirepass w4tch"],
        &["-a", "w4tch", "--no-auth-warning"],
    );
    let at = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
    for (password, wanted) in [
        ("", "NOAUTH"),
        ("?sentinel_password=guessed", "wrong user or password"),
    ] {
        let store = open(&format!("{at}{password}"));
        let why = unavailable(store.reach().await);
        assert!(why.contains(wanted), "{why}");
        assert!(!why.contains("guessed"), "{why}");
    }
    let store = open(&format!("{at}?sentinel_password=w4tch"));
    store.reach().await.unwrap();
}
