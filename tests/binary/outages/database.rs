//! Tests a database that is down, or paused.

use std::time::Instant;

use sekisho_testkit::services::{Postgres, Signal};

use super::{FEED_IS_BROKEN, LONG, is_logged, logged, metric, sandbox, states, until_states};
use crate::sandbox::{Server, until};
use crate::stalled_disk::fetch_aside;

#[test]
fn a_database_that_is_down() {
    let database = Postgres::start();
    let sandbox = sandbox(&database.database(), &["cached.example", "cold.example"]);
    for signal in [Signal::End, Signal::Kill] {
        let server = sandbox.serve();
        assert!(server.shows("cached.example", "cached.example"));
        database.signal(signal);
        until_states(&server, "available broken", "cached.example");
        refuses_what_is_not_cached(&server);
        until_states(&server, "unavailable broken", "cached.example");
        reports_the_outage(&server);
        is_logged(&server, "WARN", FEED_IS_BROKEN);
        is_logged(&server, "ERROR", "lookup failed: the client is refused");
        let error = sandbox.fails(&["host", "list"]);
        assert!(error.contains("refused"), "{error}");
        // Cached hosts older than `fresh` are refreshed in the background. They
        // stay served when that fails.
        until("it is served though it could not be read", LONG, || {
            assert!(server.shows("cached.example", "cached.example"));
            metric(&server, "sekisho_stale_served_total") > 0.0
        });

        database.begin();
        heals(&server);
        server.stop();
    }
}

#[test]
fn a_database_that_stands_still() {
    let database = Postgres::start();
    let sandbox = sandbox(&database.database(), &["cached.example", "cold.example"]);
    let server = sandbox.serve();
    assert!(server.shows("cached.example", "cached.example"));
    database.signal(Signal::Pause);
    // The store call ends at its own deadline, well before the handshake's.
    // Cached hosts are served meanwhile.
    let cold = fetch_aside(&server, "cold.example");
    let begun = Instant::now();
    let mut served = 0;
    let answer = loop {
        assert!(server.shows("cached.example", "cached.example"));
        served += 1;
        if let Ok(answer) = cold.try_recv() {
            break answer;
        }
    };
    assert!(answer.contains("InternalError"), "{answer}");
    assert!(begun.elapsed().as_secs() < 10, "{:?}", begun.elapsed());
    assert!(served > 5, "{served} requests were answered meanwhile");
    until_states(&server, "unavailable broken", "cached.example");
    refuses_what_is_not_cached(&server);
    reports_the_outage(&server);
    is_logged(&server, "WARN", FEED_IS_BROKEN);
    is_logged(&server, "ERROR", "lookup failed: the client is refused");
    assert!(
        server.log().contains("did not answer within 2s"),
        "{}",
        server.log()
    );

    database.signal(Signal::Resume);
    heals(&server);
    server.stop();
}

/// Checks that known and unknown hosts get the same alert: the lookup failed.
fn refuses_what_is_not_cached(server: &Server) {
    for host in ["cold.example", "unknown.example"] {
        let refusal = server.refusal(host);
        assert!(refusal.contains("InternalError"), "{host}: {refusal}");
    }
}

fn reports_the_outage(server: &Server) {
    assert_eq!(states(server), "unavailable broken");
    assert_eq!(metric(server, "sekisho_feed_state{state=\"broken\"}"), 1.0);
    assert_eq!(metric(server, "sekisho_store_available"), 0.0);
    for counter in [
        "sekisho_store_errors_total",
        "sekisho_loads_total{outcome=\"failed\"}",
        "sekisho_handshakes_total{result=\"failed\"}",
        "sekisho_lookups_total{outcome=\"failed\"}",
    ] {
        assert!(metric(server, counter) > 0.0, "{counter}");
    }
    assert!(server.ask("/healthz").contains("\"errors\":"));
}

fn heals(server: &Server) {
    until("it heals", LONG, || {
        assert!(server.shows("cached.example", "cached.example"));
        server.shows("cold.example", "cold.example")
    });
    until("it knows again who is unknown", LONG, || {
        server
            .refusal("unknown.example")
            .contains("UnrecognisedName")
    });
    until_states(server, "available healthy", "cached.example");
    assert_eq!(metric(server, "sekisho_store_available"), 1.0);
    assert_eq!(metric(server, "sekisho_feed_state{state=\"healthy\"}"), 1.0);
    is_logged(server, "INFO", "the change feed is back");
    // The feed logs once per outage.
    let broken = logged(server, FEED_IS_BROKEN);
    let back = logged(server, "the change feed is back");
    assert_eq!(broken.len(), back.len(), "{broken:?}");
    assert!(!server.log().contains("correct-horse"), "{}", server.log());
}
