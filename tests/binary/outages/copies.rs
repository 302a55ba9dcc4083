//! Tests an outage of database and Redis while the disk cache answers.

use sekisho_testkit::RedisServer;
use sekisho_testkit::services::{Postgres, Signal};

use super::redis_cache::{is_in_use, on, url};
use super::{LONG, is_logged, metric, states, until_states};
use crate::sandbox::{Sandbox, Server, until};

const HOSTS: [&str; 2] = ["cached.example", "cold.example"];

#[test]
fn a_server_starts_while_redis_and_database_are_down() {
    let database = Postgres::start();
    let mut redis = RedisServer::start();
    let sandbox = with_copies(&database, &redis);
    let server = sandbox.serve();
    is_in_use(&server);
    until("the copies", LONG, || {
        serves_all(&server);
        metric(&server, "sekisho_disk_cache_copies") == 2.0
            && metric(&server, "sekisho_disk_cache_start_state") == 1.0
    });
    drop(server);
    redis.kill();
    database.signal(Signal::Kill);

    let server = sandbox.serve();
    serves_all(&server);
    until_states(&server, "unavailable broken", "cached.example");
    stands_in(&server);
    is_logged(&server, "WARN", STANDS_IN);
    // Redis alone changes nothing: without the catalog, the server can't know
    // that its contents belong to it.
    redis.restart();
    stands_in(&server);

    database.begin();
    until_states(&server, "available healthy", "cached.example");
    is_logged(&server, "INFO", "the store answers again");
    is_in_use(&server);
    serves_all(&server);
    // Lookups use the store again with the circuit breaker's next trial, some
    // seconds later.
    until("the store answers lookups", LONG, || {
        server
            .refusal("unknown.example")
            .contains("UnrecognisedName")
    });
    server.stop();
}

/// Checks that the disk cache answers, and that its answers leave the states as
/// they are: the store is still unavailable.
fn stands_in(server: &Server) {
    let begun = metric(server, "sekisho_disk_cache_answers_total");
    until("copies answer again", LONG, || {
        serves_all(server);
        assert_eq!(states(server), "unavailable broken", "{}", server.log());
        metric(server, "sekisho_disk_cache_answers_total") >= begun + 4.0
    });
    let refusal = server.refusal("unknown.example");
    assert!(refusal.contains("InternalError"), "{refusal}");
}

fn serves_all(server: &Server) {
    for host in HOSTS {
        assert!(server.shows(host, host), "{host}: {}", server.log());
    }
}

fn with_copies(database: &Postgres, redis: &RedisServer) -> Sandbox {
    let sandbox = on(&database.database(), &url(redis, ""));
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("sekisho.toml", &config.replace("disk = \"off\"\n", ""));
    sandbox
}

const STANDS_IN: &str =
    "the store is out of reach, what is not in memory is answered from the disk cache";
