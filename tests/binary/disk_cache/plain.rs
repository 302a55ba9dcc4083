//! Tests the disk cache over stores that others write.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sekisho_testkit::{Answer, Endpoint, RedisServer, Speaks};

use super::{Host, LONG, assert_sealed, kept, kill};
use crate::sandbox::{Sandbox, Server, ca, until};

/// Makes a sandbox without a master key, whose cached answers age after 1 s.
fn on(url: &str, more: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure("[cache]\nfresh = \"1s\"\nabsent = \"1s\"\n");
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config
        .replace("\"sqlite:hosts.db\"\n", &format!("\"{url}\"\n{more}"))
        .replace("[keys]\nmaster = \"file:master.key\"\n", "");
    sandbox.write("sekisho.toml", &config);
    sandbox
}

fn served(server: &Server, hosts: &[Host]) {
    for host in hosts {
        assert!(host.is_served(server), "{}: {}", host.name, server.log());
    }
}

fn hosts() -> [Host; 3] {
    ["a.example", "b.example", "c.example"].map(Host::new)
}

#[test]
fn a_redis_that_is_down_has_copies() {
    let mut redis = RedisServer::start();
    let sandbox = on(&format!("redis://127.0.0.1:{}", redis.port()), "");
    let put = |redis: &RedisServer, host: &Host| {
        redis.set(&format!("{}.crt", host.name), &host.pair.chain_pem());
        redis.set(&format!("{}.key", host.name), &host.pair.key_pem());
    };
    let mut hosts = hosts();
    hosts.iter().for_each(|host| put(&redis, host));
    let server = sandbox.serve();
    served(&server, &hosts);
    kept(&server, 3);
    kill(server);
    redis.kill();
    assert_sealed(&sandbox, &hosts);
    let key = fs::metadata(sandbox.path("disk-cache.db.key")).expect("a key");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);

    let server = sandbox.serve();
    served(&server, &hosts);
    assert!(server.refusal("unknown.example").contains("InternalError"));
    redis.restart();
    redis.cli(&["flushall"]);
    hosts[1] = Host::new("b.example");
    hosts[1..].iter().for_each(|host| put(&redis, host));
    changed(&server, &hosts);
    kill(server);
    redis.kill();
    let server = sandbox.serve();
    assert!(server.refusal("a.example").contains("InternalError"));
    served(&server, &hosts[1..]);
    assert_sealed(&sandbox, &hosts);
    server.stop();
}

#[test]
fn an_endpoint_that_is_down_has_copies() {
    let pair = ca().issue(&["127.0.0.1"], sekisho_testkit::Key::P256);
    let start = |hosts: &[Host], address| {
        let speaks = Speaks::Http2(&pair);
        let endpoint = match address {
            None => Endpoint::start(speaks),
            Some(address) => Endpoint::start_at(address, speaks),
        };
        for host in hosts {
            endpoint.put(&format!("/{}", host.name), Answer::ok(host.bundle()));
        }
        endpoint
    };
    let mut hosts = hosts();
    let endpoint = start(&hosts, None);
    let address = endpoint.address;
    let url = format!("https://{address}/{{host}}");
    let sandbox = on(&url, "ca = \"ca.pem\"\n");
    sandbox.write("ca.pem", &ca().root_pem());
    let server = sandbox.serve();
    served(&server, &hosts);
    kept(&server, 3);
    kill(server);
    drop(endpoint);
    assert_sealed(&sandbox, &hosts);

    let server = sandbox.serve();
    served(&server, &hosts);
    assert!(server.refusal("unknown.example").contains("InternalError"));
    hosts[1] = Host::new("b.example");
    let endpoint = start(&hosts[1..], Some(address));
    changed(&server, &hosts);
    kill(server);
    drop(endpoint);
    let server = sandbox.serve();
    assert!(server.refusal("a.example").contains("InternalError"));
    served(&server, &hosts[1..]);
    server.stop();
}

/// Waits until the first host is removed, and the second has a new certificate
/// in the memory cache and in the disk cache.
fn changed(server: &Server, hosts: &[Host; 3]) {
    until("the removed host is refused", LONG, || {
        let refused = server.fetch("a.example").err();
        refused.is_some_and(|error| error.to_string().contains("UnrecognisedName"))
    });
    until("the new certificate", LONG, || hosts[1].is_served(server));
    kept(server, 2);
    until("the new copy", LONG, || {
        server.metric("sekisho_disk_cache_kept_total") == Some(1.0)
    });
}
