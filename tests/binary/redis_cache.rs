//! Tests the Redis cache before the catalog of several servers.

use std::time::Duration;

use sekisho_testkit::services::{Postgres, Signal};
use sekisho_testkit::{Key, RedisServer};

use crate::sandbox::{Sandbox, Server, until};
use crate::secrets::import;
use crate::secrets::search::Search;

const HOSTS: [&str; 6] = [
    "a.example",
    "b.example",
    "c.example",
    "d.example",
    "e.example",
    "f.example",
];

#[test]
fn the_redis_cache_serves_another_server_without_the_database() {
    let redis = RedisServer::start_with(&["--rdbcompression", "no"], &[]);
    let database = Postgres::start();
    let sandbox = sandbox(&database.database(), &redis);
    let pairs = HOSTS.map(|host| import(&sandbox, host, Key::P256));
    let said = sandbox.ok(&["check"]);
    assert!(said.contains("redis://127.0.0.1:"), "{said}");
    let (one, two) = (sandbox.serve(), sandbox.serve());
    for server in [&one, &two] {
        in_use(server);
    }
    // A busy server may leave a host out of Redis; it offers the host again
    // with a later load.
    let filled = || figure(&one, "redis_cache_fills_total{outcome=\"stored\"}");
    for host in HOSTS {
        assert!(one.shows(host, host), "{}", one.log());
    }
    until("the cache is filled", LONG, || filled() >= 1);
    let stored = redis.cli(&["keys", "sekisho:*:h:*"]).lines().count();

    // With the database up, only hosts that Redis lacks are read from it.
    assert!(two.shows(HOSTS[0], HOSTS[0]), "{}", two.log());
    // With the database down, the other hosts come from Redis.
    database.signal(Signal::End);
    let shown = |host: &&str| {
        let there = redis.cli(&["keys", &format!("sekisho:*:h:{host}")]);
        if !there.is_empty() {
            until(host, LONG, || two.shows(host, host));
        }
        !there.is_empty()
    };
    let served = HOSTS[1..].iter().filter(|host| shown(host)).count();
    assert!(served >= 1 && served + 1 >= stored, "{served} of {stored}");
    let hits = figure(&two, "redis_cache_reads_total{outcome=\"hit\"}");
    assert!(hits >= u64::try_from(served).unwrap(), "{hits}");
    assert!(two.refusal("g.example").contains("InternalError"));

    // The file that Redis writes to its disk contains no private key.
    redis.cli(&["save"]);
    let dump = std::fs::read(redis.path("dump.rdb")).expect("a dump");
    Search::of(&pairs).text("dump.rdb", &dump);
    let leaves = Search::for_bytes(pairs.iter().map(|pair| &pair.chain[0][..]));
    assert!(leaves.hit(&dump).is_some(), "no certificate is there");

    // With the database back, a replaced certificate leaves both servers at
    // once: a server whose circuit breaker is still open refuses the host until then.
    database.begin();
    sandbox.import_type(&[HOSTS[0]], Key::P256);
    let shown = sandbox.json(&["cert", "show", HOSTS[0], "--json"]);
    let wanted = shown[0]["sha256"].as_str().expect("a digest").to_owned();
    for server in [one, two] {
        until("the new certificate", LONG, || {
            let shown = crate::curl_openssl::try_fingerprint(server.https, HOSTS[0], &[]);
            shown.as_ref() == Ok(&wanted)
        });
        server.stop();
    }
}

#[test]
fn redis_that_comes_and_goes_takes_no_host_away() {
    let mut redis = RedisServer::start();
    redis.kill();
    let sandbox = sandbox(&Postgres::shared().database(), &redis);
    for host in HOSTS {
        sandbox.import(&[host]);
    }
    let error = sandbox.fails(&["check", "--reachable"]);
    assert!(
        error.contains("[cache] redis") && error.contains("refused"),
        "{error}"
    );
    let server = sandbox.serve();
    assert!(server.shows(HOSTS[0], HOSTS[0]));
    assert_eq!(figure(&server, "redis_cache_in_use"), 0);
    redis.restart();
    in_use(&server);
    assert!(server.shows(HOSTS[1], HOSTS[1]));
    redis.pause();
    assert!(server.shows(HOSTS[2], HOSTS[2]));
    sandbox.ok(&["host", "set", HOSTS[1], "--disabled"]);
    until("the change", LONG, || server.fetch(HOSTS[1]).is_err());
    redis.resume();
    in_use(&server);
    redis.cli(&["flushall"]);
    assert!(server.shows(HOSTS[3], HOSTS[3]));
    redis.kill();
    assert!(server.shows(HOSTS[4], HOSTS[4]));
    redis.restart();
    in_use(&server);
    assert!(server.shows(HOSTS[5], HOSTS[5]));
    assert!(server.refusal(HOSTS[1]).contains("UnrecognisedName"));
    server.stop();
}

/// A read of SQLite takes less time than a round trip to Redis.
#[test]
fn before_sqlite_redis_is_ignored_with_one_warning() {
    const IGNORED: &str = "Redis cache not used: reading sqlite: takes less time";
    let redis = RedisServer::start();
    let sandbox = Sandbox::new();
    configure(&sandbox, &redis);
    sandbox.page(HOSTS[0], HOSTS[0]);
    sandbox.import(&[HOSTS[0]]);
    let checked = sandbox.run(&["check", "--reachable"]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    assert_eq!(checked.err.matches(IGNORED).count(), 1, "{}", checked.err);
    assert!(!checked.out.contains("redis://"), "{}", checked.out);

    let server = sandbox.serve();
    assert!(server.shows(HOSTS[0], HOSTS[0]));
    let clients = redis.cli(&["client", "list"]);
    assert_eq!(clients.lines().count(), 1, "the asking one: {clients}");
    assert_eq!(server.log().matches(IGNORED).count(), 1, "{}", server.log());
    server.stop();
}

/// Makes a sandbox on this database, with a page for each host.
pub(crate) fn sandbox(url: &str, redis: &RedisServer) -> Sandbox {
    let sandbox = Sandbox::new();
    configure(&sandbox, redis);
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("sekisho.toml", &config.replace("sqlite:hosts.db", url));
    HOSTS.iter().for_each(|host| sandbox.page(host, host));
    sandbox
}

fn configure(sandbox: &Sandbox, redis: &RedisServer) {
    let port = redis.port();
    sandbox.configure(&format!(
        "[cache]\nredis = \"redis://127.0.0.1:{port}/0\"\n"
    ));
}

fn in_use(server: &Server) {
    until("Redis is used", LONG, || {
        figure(server, "redis_cache_in_use") == 1
    });
}

/// Returns the value of a metric without its prefix.
fn figure(server: &Server, name: &str) -> u64 {
    let value = server.metric(&format!("sekisho_{name}"));
    value.expect("a figure") as u64
}

/// Longest rest between two attempts, on a loaded machine.
const LONG: Duration = Duration::from_secs(30);
