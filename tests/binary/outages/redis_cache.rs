//! Tests outages of the Redis cache, alone or together with the database:
//! lookups bypass it.

use sekisho_testkit::RedisServer;
use sekisho_testkit::services::{Postgres, Signal};

use super::{LONG, is_logged, logged, metric, sandbox, states, until_states};
use crate::sandbox::{Sandbox, Server, until};

const PASSED_OVER: &str = "Redis before the store is passed over until it is back";
const USED_AGAIN: &str = "Redis before the store is used again";

#[test]
fn redis_that_is_down() {
    let mut redis = RedisServer::start();
    let sandbox = on(&Postgres::shared().database(), &url(&redis, ""));
    let server = sandbox.serve();
    is_in_use(&server);
    redis.stop();
    bypasses_redis(&sandbox, &server);
    redis.restart();
    is_in_use(&server);
    is_logged(&server, "INFO", USED_AGAIN);
    server.stop();
}

#[test]
fn redis_that_stands_still() {
    let redis = RedisServer::start();
    let sandbox = on(&Postgres::shared().database(), &url(&redis, ""));
    let server = sandbox.serve();
    is_in_use(&server);
    redis.pause();
    bypasses_redis(&sandbox, &server);
    redis.resume();
    is_in_use(&server);
    is_logged(&server, "INFO", USED_AGAIN);
    server.stop();
}

#[test]
fn redis_that_has_no_room() {
    let redis = RedisServer::start();
    let sandbox = on(&Postgres::shared().database(), &url(&redis, ""));
    let server = sandbox.serve();
    is_in_use(&server);
    redis.cli(&["config", "set", "maxmemory", "1"]);
    bypasses_redis(&sandbox, &server);
    redis.cli(&["config", "set", "maxmemory", "0"]);
    is_in_use(&server);
    is_logged(&server, "INFO", USED_AGAIN);
    server.stop();
}

#[test]
fn redis_that_does_not_take_the_password() {
    let redis = RedisServer::start_with(
        &["--requirepass", "s3same"],
        &["-a", "s3same", "--no-auth-warning"],
    );
    let sandbox = on(&Postgres::shared().database(), &url(&redis, ":wr0ng@"));
    let error = sandbox.fails(&["check", "--reachable"]);
    assert!(error.contains("[cache] redis"), "{error}");
    assert!(error.contains("wrong user or password"), "{error}");
    let server = sandbox.serve();
    bypasses_redis(&sandbox, &server);
    redis.cli(&["config", "set", "requirepass", "wr0ng"]);
    is_in_use(&server);
    is_logged(&server, "INFO", USED_AGAIN);
    assert!(!server.log().contains("wr0ng") && !error.contains("wr0ng"));
    server.stop();
}

#[test]
fn redis_and_database_are_down() {
    let database = Postgres::start();
    let mut redis = RedisServer::start();
    let sandbox = on(&database.database(), &url(&redis, ""));
    let server = sandbox.serve();
    is_in_use(&server);
    assert!(server.shows("cached.example", "cached.example"));
    redis.kill();
    database.signal(Signal::Kill);
    until_states(&server, "available broken", "cached.example");
    for host in ["cold.example", "unknown.example"] {
        let refusal = server.refusal(host);
        assert!(refusal.contains("InternalError"), "{host}: {refusal}");
    }
    until_states(&server, "unavailable broken", "cached.example");
    assert_eq!(metric(&server, "sekisho_redis_cache_in_use"), 0.0);

    // Both recover independently.
    database.begin();
    until("the database is back", LONG, || {
        server.shows("cold.example", "cold.example")
    });
    until_states(&server, "available healthy", "cached.example");
    redis.restart();
    is_in_use(&server);
    server.stop();
}

/// Checks that the server bypasses Redis, refuses no host and misses no change.
fn bypasses_redis(sandbox: &Sandbox, server: &Server) {
    assert!(server.shows("cached.example", "cached.example"));
    assert!(server.shows("cold.example", "cold.example"));
    assert!(
        server
            .refusal("unknown.example")
            .contains("UnrecognisedName")
    );
    sandbox.page("new.example", "new.example");
    sandbox.import(&["new.example"]);
    until("a new host", LONG, || {
        server.shows("new.example", "new.example")
    });
    sandbox.ok(&["host", "remove", "cold.example"]);
    until("a removed host", LONG, || {
        server.fetch("cold.example").is_err()
    });
    assert!(server.refusal("cold.example").contains("UnrecognisedName"));
    assert_eq!(states(server), "available healthy");
    is_logged(server, "WARN", PASSED_OVER);
    assert_eq!(metric(server, "sekisho_redis_cache_in_use"), 0.0);
    // The server logs once per outage, even a long one.
    assert_eq!(logged(server, PASSED_OVER).len(), 1, "{}", server.log());
}

pub(super) fn is_in_use(server: &Server) {
    until("Redis is used", LONG, || {
        metric(server, "sekisho_redis_cache_in_use") == 1.0
    });
}

pub(super) fn on(database: &str, redis: &str) -> Sandbox {
    let sandbox = sandbox(database, &["cached.example", "cold.example"]);
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("[cache]\n", &format!("[cache]\nredis = \"{redis}\"\n"));
    sandbox.write("sekisho.toml", &config);
    sandbox
}

pub(super) fn url(redis: &RedisServer, user: &str) -> String {
    format!("redis://{user}127.0.0.1:{}/0", redis.port())
}
