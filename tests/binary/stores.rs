//! Tests store files and master keys that can't be used.

use std::fs;

use rusqlite::Connection;

use crate::sandbox::{SOON, Sandbox, until};

#[test]
fn a_missing_store_is_created_by_writers_alone() {
    let sandbox = Sandbox::new();
    for args in [
        &["serve"][..],
        &["check"],
        &["host", "list"],
        &["cert", "list"],
        &["host", "remove", "a.example"],
    ] {
        let error = sandbox.fails(args);
        assert!(error.contains("hosts.db is missing"), "{args:?}: {error}");
        assert!(!sandbox.path("hosts.db").exists(), "{args:?} created it");
        assert!(
            !sandbox.path("master.key").exists(),
            "{args:?} created a key"
        );
    }
}

#[test]
fn a_creation_that_broke_off_is_completed() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let key = fs::read(sandbox.path("master.key")).expect("a file");
    // A process killed between key and store, and one killed while it created
    // the store.
    for left in [None, Some(b"")] {
        fs::remove_file(sandbox.path("hosts.db")).expect("a file");
        if let Some(bytes) = left {
            fs::write(sandbox.path("hosts.db"), bytes).expect("a file");
        }
        sandbox.import(&["b.example"]);
        sandbox.ok(&["check"]);
        let hosts = sandbox.ok(&["host", "list"]);
        assert!(
            hosts.starts_with("b.example") && hosts.lines().count() == 1,
            "{hosts}"
        );
        assert_eq!(fs::read(sandbox.path("master.key")).expect("a file"), key);
    }
}

#[test]
fn damaged_and_foreign_files_are_named() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let good = fs::read(sandbox.path("hosts.db")).expect("a file");
    let damaged = {
        let mut bytes = good.clone();
        bytes[100..4096].fill(0xa5);
        bytes
    };
    for (bytes, says) in [
        (
            b"not a database, but long enough to be read as a header".repeat(100),
            "is not a store",
        ),
        (damaged, "hosts.db"),
        (Vec::new(), "is empty"),
    ] {
        fs::write(sandbox.path("hosts.db"), &bytes).expect("a file");
        for args in [&["check"][..], &["serve"], &["host", "list"]] {
            let error = sandbox.fails(args);
            assert!(error.contains(says), "{says}: {error}");
        }
    }
    fs::write(sandbox.path("hosts.db"), &good).expect("a file");
    sandbox.ok(&["check"]);
}

#[test]
fn a_newer_store_is_left_alone() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sql(
        &sandbox,
        "PRAGMA user_version = 99; UPDATE meta SET compatible = 99",
    );
    for args in [&["check"][..], &["serve"], &["host", "set", "b.example"]] {
        let error = sandbox.fails(args);
        assert!(error.contains("version 99"), "{error}");
    }
}

#[test]
fn the_wrong_master_key_is_told_at_once() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    fs::rename(sandbox.path("master.key"), sandbox.path("right.key")).expect("a file");
    let other = Sandbox::new();
    other.import(&["b.example"]);
    fs::copy(other.path("master.key"), sandbox.path("master.key")).expect("a file");
    for args in [
        &["check"][..],
        &["serve"],
        &["cert", "show", "a.example"],
        &["host", "set", "c.example"],
    ] {
        let error = sandbox.fails(args);
        assert!(error.contains("master"), "{args:?}: {error}");
    }
    fs::remove_file(sandbox.path("master.key")).expect("a file");
    for args in [&["check"][..], &["serve"], &["host", "set", "c.example"]] {
        let error = sandbox.fails(args);
        assert!(error.contains("master.key"), "{args:?}: {error}");
        assert!(
            !sandbox.path("master.key").exists(),
            "a new key would open nothing"
        );
    }
    fs::rename(sandbox.path("right.key"), sandbox.path("master.key")).expect("a file");
    sandbox.ok(&["check"]);
}

#[test]
fn a_locked_store_is_waited_for_and_then_named() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let lock = locked(&sandbox);
    let error = sandbox.fails(&["host", "set", "b.example"]);
    assert!(error.contains("locked by another process"), "{error}");
    sandbox.ok(&["host", "list"]);
    drop(lock);
    sandbox.ok(&["host", "set", "b.example"]);
}

#[test]
fn a_server_goes_on_with_a_replaced_file() {
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page of a");
    sandbox.page("b.example", "page of b");
    sandbox.import(&["a.example"]);
    let backup = sandbox.path("backup.db");
    sql(&sandbox, &format!("VACUUM INTO '{}'", backup.display()));
    let server = sandbox.serve();
    sandbox.import(&["b.example"]);
    until("the new host", SOON, || {
        server.shows("b.example", "page of b")
    });
    fs::rename(sandbox.path("backup.db"), sandbox.path("hosts.db")).expect("a file");
    until("the restored file", SOON, || {
        server.fetch("b.example").is_err()
    });
    assert!(server.refusal("b.example").contains("UnrecognisedName"));
    assert!(server.shows("a.example", "page of a"));
}

#[test]
fn cached_hosts_are_served_while_the_store_file_is_gone() {
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    sandbox.import(&["b.example"]);
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a"));
    // A host that no lookup has read yet.
    sandbox.import(&["c.example"]);
    fs::rename(sandbox.path("hosts.db"), sandbox.path("away.db")).expect("a file");
    let mut name = 0..;
    until("the failure", SOON, || {
        let fresh = format!("{}.example", name.next().expect("it is endless"));
        server.refusal(&fresh).contains("InternalError")
    });
    assert!(server.shows("a.example", "page of a"));
    fs::rename(sandbox.path("away.db"), sandbox.path("hosts.db")).expect("a file");
    until("the store is back", SOON, || {
        server.fetch("c.example").is_ok()
    });
}

fn sql(sandbox: &Sandbox, sql: &str) {
    let connection = Connection::open(sandbox.path("hosts.db")).expect("a database");
    connection.execute_batch(sql).expect(sql);
}

/// Takes SQLite's write lock until the connection is dropped.
fn locked(sandbox: &Sandbox) -> Connection {
    let connection = Connection::open(sandbox.path("hosts.db")).expect("a database");
    connection
        .execute_batch("BEGIN IMMEDIATE")
        .expect("the lock");
    connection
}
