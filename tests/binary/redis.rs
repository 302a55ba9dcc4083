//! Tests a real Redis with chains and keys as plain strings, filled by
//! redis-cli.

use std::time::Duration;

use sekisho_testkit::{Key, RedisServer};

use crate::sandbox::{Sandbox, ca, until};

#[test]
fn a_filled_redis_is_served_by_one_command() {
    let redis = RedisServer::start();
    put(&redis, "a.example");
    put(&redis, "*.example.com");
    let sandbox = on(&redis, "redis://127.0.0.1:PORT");
    for host in ["a.example", "b.example.com"] {
        sandbox.page(host, &format!("page of {host}"));
    }
    assert!(sandbox.ok(&["check"]).contains("redis://127.0.0.1:"));
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a.example"));
    assert!(server.shows("b.example.com", "page of b.example.com"));
    assert!(server.refusal("c.example").contains("UnrecognisedName"));
    redis.set(
        "half.example.crt",
        &ca().issue(&["half.example"], Key::P256).chain_pem(),
    );
    assert!(server.refusal("half.example").contains("InternalError"));
    let error = sandbox.fails(&["host", "list"]);
    assert!(error.contains("written by others"), "{error}");
    server.stop();
}

#[test]
fn serve_starts_without_redis_and_finds_it() {
    let mut redis = RedisServer::start();
    redis.kill();
    let sandbox = on(&redis, "redis://127.0.0.1:PORT/0");
    sandbox.page("a.example", "page of a");
    let error = sandbox.fails(&["check", "--reachable"]);
    assert!(error.contains("refused"), "{error}");
    let server = sandbox.serve();
    assert!(server.refusal("a.example").contains("InternalError"));
    redis.restart();
    put(&redis, "a.example");
    until("Redis is found", SOON, || {
        server.shows("a.example", "page of a")
    });
    server.stop();
}

#[test]
fn a_redis_that_stands_still_stalls_no_cached_host() {
    let redis = RedisServer::start();
    put(&redis, "cached.example");
    put(&redis, "cold.example");
    let sandbox = on(&redis, "redis://127.0.0.1:PORT");
    for host in ["cached.example", "cold.example"] {
        sandbox.page(host, host);
    }
    let server = sandbox.serve();
    assert!(server.shows("cached.example", "cached.example"));
    redis.pause();
    assert!(server.refusal("cold.example").contains("InternalError"));
    assert!(server.shows("cached.example", "cached.example"));
    redis.resume();
    until("Redis goes on", SOON, || {
        server.shows("cold.example", "cold.example")
    });
    server.stop();
}

#[test]
fn check_says_what_is_wrong_without_the_password() {
    let args = ["--requirepass", "s3same"];
    let redis = RedisServer::start_with(&args, &["-a", "s3same", "--no-auth-warning"]);
    let sandbox = on(&redis, "redis://:s3same@127.0.0.1:PORT/0");
    let said = sandbox.ok(&["check"]);
    assert!(said.contains("redis://:***@127.0.0.1:"), "{said}");
    for (url, wanted) in [
        ("redis://:wr0ng@127.0.0.1:PORT", "wrong user or password"),
        ("redis://127.0.0.1:PORT", "NOAUTH"),
        ("redis://:s3same@127.0.0.1:1", "refused"),
        (
            "rediss://:s3same@127.0.0.1:PORT?ca=ca.pem",
            "did not answer within 1s",
        ),
    ] {
        sandbox.write("ca.pem", &ca().root_pem());
        configure(&sandbox, &redis, url);
        let error = sandbox.fails(&["check", "--reachable"]);
        assert!(error.contains(wanted), "{url}: {error}");
        assert!(
            !error.contains("s3same") && !error.contains("wr0ng"),
            "{error}"
        );
    }
}

pub(crate) fn put(redis: &RedisServer, name: &str) {
    let pair = ca().issue(&[name], Key::P256);
    redis.set(&format!("{name}.crt"), &pair.chain_pem());
    redis.set(&format!("{name}.key"), &pair.key_pem());
}

/// Makes a sandbox on this Redis. PORT in the URL stands for its port.
pub(crate) fn on(redis: &RedisServer, url: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, redis, url);
    sandbox
}

fn configure(sandbox: &Sandbox, redis: &RedisServer, url: &str) {
    let url = url.replace("PORT", &redis.port().to_string());
    sandbox.configure("");
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("sqlite:hosts.db", &url);
    let config = config.replace("[keys]\nmaster = \"file:master.key\"\n", "");
    sandbox.write("sekisho.toml", &config);
}

/// The circuit breaker's rest and one between two connection attempts, on a
/// loaded machine.
const SOON: Duration = Duration::from_secs(20);
