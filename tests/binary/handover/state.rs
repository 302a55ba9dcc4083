//! Tests hand-overs where the store or the disk is not as the new process needs it.

use std::process::Command;

use rusqlite::Connection;
use sekisho_testkit::{Key, RedisServer};

use super::stores::put;
use super::{HOST, Handed};
use crate::sandbox::{SOON, ca, until};

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let handed = Handed::start("");
    let store = Connection::open(handed.sandbox.path("hosts.db")).expect("the store");
    let version = |sql: &str| store.query_row(sql, (), |row| row.get::<_, i64>(0));
    let before = version("PRAGMA user_version").expect("a version");
    let update = |version: i64| {
        let sql =
            format!("UPDATE meta SET compatible = {version}; PRAGMA user_version = {version}");
        store.execute_batch(&sql).expect("an update");
    };
    update(before + 1);
    handed.write(2, "", "");
    let ran = handed.run("upgrade");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("has schema version"), "{}", ran.err);
    assert!(handed.serves(1), "{}", handed.server.log());
    update(before);
    handed.reload(2, "", "");
}

#[test]
fn a_full_disk_stops_no_hand_over() {
    let redis = RedisServer::start();
    put(&redis, &ca().issue(&[HOST], Key::P256));
    let more = format!(
        "[store]\nurl = \"redis://127.0.0.1:{}\"\n[log]\naccess = \"access.log\"\n",
        redis.port()
    );
    // No process of the service may write a byte into a file from here on.
    let handed = Handed::start_by(&["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"], &more);
    until("the first visit", SOON, || handed.serves(1));
    let pid = format!("--pid={}", handed.server.pid());
    let limited = Command::new("prlimit").args([&pid, "--fsize=0"]).status();
    assert!(limited.expect("util-linux").success());
    handed.reload(2, "", &more);
    handed.reload(3, "", &more);
}
