//! Tests singleflight: a thousand connections that want one uncached host.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sekisho_testkit::services::Postgres;
use sekisho_testkit::{RedisServer, client};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::sandbox::{Sandbox, Server, ca, until};
use crate::{postgres, redis};

#[test]
fn a_thousand_connections_cost_redis_one_call() {
    let redis = RedisServer::start();
    redis::put(&redis, "a.example");
    let sandbox = redis::on(&redis, "redis://127.0.0.1:PORT");
    let server = patient(&sandbox);
    // The pause lets others come while the first load waits.
    redis.cli(&["client", "pause", "400", "all"]);
    assert_eq!(served(server.https, "a.example"), CONNECTIONS);
    assert_eq!(server.metric("sekisho_store_call_seconds_count"), Some(1.0));
    let stats = redis.cli(&["info", "commandstats"]);
    assert!(stats.contains("cmdstat_mget:calls=1,"), "{stats}");
    server.stop();
}

#[test]
fn a_thousand_connections_cost_postgres_one_call() {
    let database = Postgres::shared();
    let url = database.database();
    let sandbox = postgres::sandbox(&url);
    postgres::import(&sandbox, "a.example");
    let server = patient(&sandbox);
    thread::scope(|scope| {
        let name = postgres::name_of(&url);
        let lock = scope.spawn(|| database.sql(name, LOCK));
        // A busy machine may miss the lock; the test then still sees one call.
        let is_held = || database.sql(name, LOCKS).trim() == "1";
        until("the lock", ANSWER, || lock.is_finished() || is_held());
        assert_eq!(served(server.https, "a.example"), CONNECTIONS);
    });
    assert_eq!(server.metric("sekisho_store_call_seconds_count"), Some(1.0));
    server.stop();
}

/// Starts a server with a long handshake timeout, for busy machines.
fn patient(sandbox: &Sandbox) -> Server {
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = format!("{config}[server]\nhandshake_timeout = \"60s\"\n");
    sandbox.write("sekisho.toml", &config);
    sandbox.serve()
}

/// Opens connections at once; returns how many get the certificate of this
/// host.
fn served(address: SocketAddr, host: &'static str) -> usize {
    let hard = getrlimit(Resource::Nofile).maximum;
    let open = Rlimit {
        current: hard,
        maximum: hard,
    };
    setrlimit(Resource::Nofile, open).expect("up to the hard limit");
    let config = client::config(ca());
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut clients = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let connect = client::connect(address, host, config.clone());
            // Kept open: all connections exist at once.
            clients.spawn(connect);
        }
        let ended = clients.join_all().await;
        ended.iter().filter(|ended| ended.is_ok()).count()
    })
}

const CONNECTIONS: usize = 1000;
const ANSWER: Duration = Duration::from_secs(20);
/// Lookups wait for its end.
const LOCK: &str = "BEGIN; LOCK TABLE sekisho.hosts IN ACCESS EXCLUSIVE MODE; \
                    SELECT pg_sleep(0.4); COMMIT";
const LOCKS: &str = "SELECT count(*) FROM pg_locks WHERE granted \
                     AND mode = 'AccessExclusiveLock' AND relation = 'sekisho.hosts'::regclass";
