//! Tests a password that the database refuses, from the start and later.

use sekisho_testkit::services::Postgres;

use super::{FEED_IS_BROKEN, LONG, is_logged, metric, sandbox, until_states, use_store};
use crate::sandbox::until;

#[test]
fn a_password_that_is_wrong_at_the_start() {
    let database = Postgres::start();
    let right = user(&database);
    let sandbox = sandbox(&right, &["a.example"]);
    database.sql("postgres", "ALTER ROLE keeper PASSWORD 'second'");
    let error = sandbox.fails(&["check", "--reachable"]);
    assert!(
        error.contains("28P01") && !error.contains("first"),
        "{error}"
    );
    // The password may be corrected in the database. A server that refused to
    // start would then stay down.
    let server = sandbox.serve();
    is_logged(
        &server,
        "WARN",
        "the store is out of reach, it is tried again with each call",
    );
    assert!(server.log().contains("28P01"), "{}", server.log());
    assert!(server.refusal("a.example").contains("InternalError"));
    assert_eq!(metric(&server, "sekisho_store_available"), 0.0);
    database.sql("postgres", "ALTER ROLE keeper PASSWORD 'first'");
    until("it heals", LONG, || server.shows("a.example", "a.example"));
    assert!(!server.log().contains("first"), "{}", server.log());
    server.stop();
}

#[test]
fn a_password_that_changes_while_it_serves() {
    let database = Postgres::start();
    let right = user(&database);
    let sandbox = sandbox(&right, &["cached.example", "cold.example"]);
    let names = (1..=6).map(|number| format!("warm-{number}.example"));
    let names: Vec<_> = names.collect();
    for name in &names {
        sandbox.page(name, name);
        sandbox.import(&[name]);
    }
    let server = sandbox.serve();
    assert!(server.shows("cached.example", "cached.example"));
    database.sql("postgres", "ALTER ROLE keeper PASSWORD 'second'");
    // Open connections stay open and serve every worker.
    for name in &names {
        assert!(server.shows(name, name), "{}", server.log());
    }
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'";
    database.sql("postgres", cut);
    until_states(&server, "available broken", "cached.example");
    assert!(server.refusal("cold.example").contains("InternalError"));
    until_states(&server, "unavailable broken", "cached.example");
    is_logged(&server, "WARN", FEED_IS_BROKEN);
    assert!(server.log().contains("28P01"), "{}", server.log());

    // Commands and servers that start with the new password work at once.
    use_store(&sandbox, &right.replace("first", "second"));
    sandbox.ok(&["check"]);
    let restarted = sandbox.serve();
    assert!(restarted.shows("cold.example", "cold.example"));
    restarted.stop();
    database.sql("postgres", "ALTER ROLE keeper PASSWORD 'first'");
    until("it heals", LONG, || {
        server.shows("cold.example", "cold.example")
    });
    until_states(&server, "available healthy", "cached.example");
    assert!(!server.log().contains("first"), "{}", server.log());
    server.stop();
}

/// Makes a database, and a user whose password another user can change.
fn user(database: &Postgres) -> String {
    database.sql(
        "postgres",
        "CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'first'",
    );
    database
        .database()
        .replace("sekisho:correct-horse", "keeper:first")
}
