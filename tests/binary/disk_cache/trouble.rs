//! Tests that a server serves without its disk cache if that is unusable.

use std::fs;

use sekisho_testkit::RedisServer;

use super::{Host, kept};
use crate::sandbox::Sandbox;

fn on(redis: &RedisServer, cache: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure(&format!("[cache]\n{cache}\n"));
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let config = config
        .replace("sqlite:hosts.db", &url)
        .replace("[keys]\nmaster = \"file:master.key\"\n", "");
    sandbox.write("sekisho.toml", &config);
    sandbox
}

fn put(redis: &RedisServer, host: &Host) {
    redis.set(&format!("{}.crt", host.name), &host.pair.chain_pem());
    redis.set(&format!("{}.key", host.name), &host.pair.key_pem());
}

#[test]
fn a_server_without_its_disk_cache_serves_and_warns() {
    let redis = RedisServer::start();
    let host = Host::new("a.example");
    put(&redis, &host);
    for (cache, says) in [
        (
            "disk = \"/proc/disk-cache.db\"",
            "/proc/disk-cache.db.lock: ",
        ),
        (
            "disk = \"nowhere/disk-cache.db\"",
            "nowhere/disk-cache.db.lock: ",
        ),
        ("disk = \"junk\"", "junk is no disk cache"),
        ("disk = \"off\"", ""),
    ] {
        let sandbox = on(&redis, cache);
        sandbox.write("junk", &"no database ".repeat(1000));
        sandbox.ok(&["check"]);
        let server = sandbox.serve();
        assert!(host.is_served(&server), "{cache}");
        let log = server.log();
        assert!(log.contains(says), "{cache}: {log}");
        let warned = log.contains("disk cache disabled");
        assert_eq!(warned, !says.is_empty(), "{log}");
        assert_eq!(server.metric("sekisho_disk_cache_copies"), None);
        assert!(!sandbox.path("disk-cache.db").exists());
        server.stop();
    }
}

#[test]
fn the_second_server_in_a_folder_goes_without() {
    let redis = RedisServer::start();
    let host = Host::new("a.example");
    put(&redis, &host);
    let sandbox = on(&redis, "");
    let first = sandbox.serve();
    let second = sandbox.serve();
    assert!(host.is_served(&first) && host.is_served(&second));
    kept(&first, 1);
    assert!(!first.log().contains("no copies are kept"));
    assert!(second.log().contains("another server uses"));
    assert_eq!(second.metric("sekisho_disk_cache_copies"), None);
    // The first server has ended and released the lock.
    drop(first);
    second.stop();
    kept(&sandbox.serve(), 1);
}

#[test]
fn a_damaged_file_is_replaced() {
    let mut redis = RedisServer::start();
    let host = Host::new("a.example");
    put(&redis, &host);
    let sandbox = on(&redis, "");
    let server = sandbox.serve();
    assert!(host.is_served(&server));
    kept(&server, 1);
    server.stop();
    let path = sandbox.path("disk-cache.db");
    let mut bytes = fs::read(&path).expect("a file");
    bytes[100..].fill(0xa5);
    fs::write(&path, bytes).expect("a file");
    let server = sandbox.serve();
    assert!(host.is_served(&server));
    kept(&server, 1);
    drop(server);
    redis.kill();
    let server = sandbox.serve();
    assert!(host.is_served(&server));
    server.stop();
}

#[test]
fn a_server_killed_at_any_moment_starts_again() {
    let mut redis = RedisServer::start();
    let sandbox = on(&redis, "");
    let hosts: Vec<_> = (0..40)
        .map(|number| Host::new(&format!("h{number}.example")))
        .collect();
    hosts.iter().for_each(|host| put(&redis, host));
    // Kills servers while they create or write the file.
    for round in 0..8 {
        let server = sandbox.serve();
        for host in hosts.iter().skip(round).take(round * 5) {
            assert!(host.is_served(&server), "{}", server.log());
        }
        drop(server);
    }
    redis.kill();
    let server = sandbox.serve();
    let served = hosts.iter().filter(|host| {
        let is_served = host.is_served(&server);
        assert!(is_served || server.refusal(&host.name).contains("InternalError"));
        is_served
    });
    assert!(served.count() > 0, "{}", server.log());
    server.stop();
}
