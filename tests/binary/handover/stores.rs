//! Tests a hand-over while the store is down.

use std::thread;

use sekisho_testkit::services::{Postgres, Signal};
use sekisho_testkit::{Key, Pair, RedisServer, client};
use tokio::runtime::Builder;

use super::connections::ask;
use super::{HOST, Handed};
use crate::postgres;
use crate::sandbox::{SOON, Sandbox, ca, until};

#[test]
fn a_hand_over_while_postgresql_is_down_loses_no_host() {
    let (database, writer, store) = on_postgresql("");
    let handed = Handed::start(&store);
    until("the first visit", SOON, || handed.serves(1));
    until("a copy on disk", SOON, || {
        handed.server.metric("sekisho_disk_cache_copies") == Some(1.0)
    });
    // First the server refuses connections, then it accepts them and says nothing.
    database.signal(Signal::End);
    handed.reload(2, "", &store);
    database.begin();
    database.signal(Signal::Pause);
    handed.reload(3, "", &store);
    database.signal(Signal::Resume);
    postgres::import(&writer, "b.example");
    until("a change of the store", SOON, || {
        handed.server.fetch("b.example").is_ok()
    });
}

/// The process that leaves has no other copy than that in memory.
#[test]
fn open_connections_are_answered_while_postgresql_is_down() {
    let (database, _writer, store) = on_postgresql("[cache]\nfresh = \"1s\"\n");
    let handed = Handed::start(&store);
    until("the first visit", SOON, || handed.serves(1));
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut parked: Vec<_> = (0..2)
        .map(|_| {
            let config = client::config(ca());
            let stream = client::connect(handed.server.https, HOST, config);
            let mut stream = runtime.block_on(stream).expect("a connection");
            runtime.block_on(ask(&mut stream)).expect("an answer");
            stream
        })
        .collect();
    database.signal(Signal::End);
    until("the outage is known", SOON, || {
        // A name that is in no cache.
        let _ = handed.server.fetch("unknown.example");
        handed.server.metric("sekisho_store_available") == Some(0.0)
    });
    handed.reload(2, "", &store);
    thread::sleep(super::A_WHILE);
    for stream in &mut parked {
        let answer = runtime.block_on(ask(stream)).expect("an answer");
        assert!(answer.contains("generation-1.example"), "{answer}");
    }
}

#[test]
fn a_hand_over_while_redis_is_down_loses_no_host() {
    let mut redis = RedisServer::start();
    let pair = ca().issue(&[HOST], Key::P256);
    put(&redis, &pair);
    let store = format!("[store]\nurl = \"redis://127.0.0.1:{}\"\n", redis.port());
    let handed = Handed::start(&store);
    until("the first visit", SOON, || handed.serves(1));
    until("a copy on disk", SOON, || {
        handed.server.metric("sekisho_disk_cache_copies") == Some(1.0)
    });
    redis.stop();
    handed.reload(2, "", &store);
    redis.restart();
    put(&redis, &pair);
    handed.reload(3, "", &store);
    assert_eq!(
        handed.server.metric("sekisho_disk_cache_copies"),
        Some(1.0),
        "the disk cache is handed over: {}",
        handed.server.log()
    );
}

/// Starts PostgreSQL with a host. Returns a sandbox that writes there, and the sections of a
/// configuration that uses it, with further ones.
fn on_postgresql(more: &str) -> (Postgres, Sandbox, String) {
    let database = Postgres::start();
    let url = database.database();
    let writer = postgres::sandbox(&url);
    postgres::import(&writer, HOST);
    let master = writer.path("master.key");
    let store = format!(
        "[store]\nurl = \"{url}\"\n[keys]\nmaster = \"file:{}\"\n{more}",
        master.display()
    );
    (database, writer, store)
}

pub(super) fn put(redis: &RedisServer, pair: &Pair) {
    redis.set(&format!("{HOST}.crt"), &pair.chain_pem());
    redis.set(&format!("{HOST}.key"), &pair.key_pem());
}
