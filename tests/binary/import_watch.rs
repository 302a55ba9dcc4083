//! Tests imports that go on while another tool renews.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::{Key, Pair};
use serde_json::Value;

use crate::sandbox::{Ran, SOON, Sandbox, ca, until};

/// Issues a certificate that is valid until a year.
pub(crate) fn until_year(host: &str, year: i32) -> Pair {
    ca().issue_valid(&[host], Key::P256, (2020, 1, 1), (year, 1, 1))
}

fn write(sandbox: &Sandbox, stem: &str, pair: &Pair) {
    sandbox.write(&format!("{stem}.crt"), &pair.chain_pem());
    sandbox.write(&format!("{stem}.key"), &pair.key_pem());
}

/// Starts a watcher of a source.
pub(crate) fn watch(sandbox: &Sandbox, source: &str, more: &[&str]) -> Child {
    let import = ["cert", "import", source, "--watch"];
    let mut command = sandbox.command(&[&import[..], more].concat());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the binary runs")
}

/// Waits until the certificate of a host is the one that is valid until a year.
pub(crate) fn has(sandbox: &Sandbox, host: &str, year: i32) {
    until(&format!("{host} of {year}"), SOON, || {
        let ran = sandbox.run(&["cert", "show", host, "--json"]);
        let shown = serde_json::from_str::<Value>(&ran.out).unwrap_or_default();
        shown[0]["not_after"] == format!("{year}-01-01T00:00:00Z")
    });
}

/// Ends a watcher as systemd does, between two rounds: what was stored is seen in a round.
pub(crate) fn end(watcher: Child) -> Ran {
    thread::sleep(Duration::from_millis(200));
    let pid = Pid::from_child(&watcher);
    kill_process(pid, Signal::TERM).expect("it runs");
    Ran::of(&watcher.wait_with_output().expect("it ends"))
}

#[test]
fn renewals_are_taken_however_they_are_written() {
    let sandbox = Sandbox::new();
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2080));
    write(&sandbox, "real/1", &until_year("b.example", 2080));
    for ending in ["crt", "key"] {
        let link = sandbox.path(&format!("pairs/b.example.{ending}"));
        symlink(sandbox.path(&format!("real/1.{ending}")), link).expect("a link");
    }
    let watcher = watch(&sandbox, "pairs", &[]);
    has(&sandbox, "b.example", 2080);
    // In place.
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2081));
    has(&sandbox, "a.example", 2081);
    // In two steps, with a pause: half of a pair waits.
    let next = until_year("a.example", 2082);
    sandbox.write("pairs/a.example.key", &next.key_pem());
    thread::sleep(Duration::from_millis(1500));
    sandbox.write("pairs/a.example.crt", &next.chain_pem());
    has(&sandbox, "a.example", 2082);
    // By rename.
    write(&sandbox, "new", &until_year("a.example", 2083));
    for ending in ["crt", "key"] {
        let to = sandbox.path(&format!("pairs/a.example.{ending}"));
        fs::rename(sandbox.path(&format!("new.{ending}")), to).expect("a file");
    }
    has(&sandbox, "a.example", 2083);
    // In the files that links lead to, and by other links.
    write(&sandbox, "real/1", &until_year("b.example", 2081));
    has(&sandbox, "b.example", 2081);
    write(&sandbox, "real/2", &until_year("b.example", 2082));
    for ending in ["crt", "key"] {
        let link = sandbox.path(&format!("pairs/b.example.{ending}"));
        fs::remove_file(&link).expect("a link");
        symlink(sandbox.path(&format!("real/2.{ending}")), link).expect("a link");
    }
    has(&sandbox, "b.example", 2082);
    write(&sandbox, "pairs/c.example", &until_year("c.example", 2080));
    has(&sandbox, "c.example", 2080);
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.err.contains("refused"), "{}", ran.err);
    assert!(ran.out.lines().count() >= 7, "{}", ran.out);
}

#[test]
fn changes_that_are_not_reported_are_found_by_a_scan() {
    let sandbox = Sandbox::new();
    let certs = "le/live/a.example";
    let lineage = |year| {
        let pair = until_year("a.example", year);
        sandbox.write(&format!("{certs}/fullchain.pem"), &pair.chain_pem());
        sandbox.write(&format!("{certs}/privkey.pem"), &pair.key_pem());
    };
    lineage(2080);
    let mut command = sandbox.command(&["cert", "import", "le", "--watch", "--every", "1s"]);
    let watcher = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    has(&sandbox, "a.example", 2080);
    // The folder is another one afterwards.
    fs::rename(sandbox.path("le"), sandbox.path("old")).expect("a folder");
    thread::sleep(Duration::from_millis(1500));
    lineage(2081);
    has(&sandbox, "a.example", 2081);
    lineage(2082);
    has(&sandbox, "a.example", 2082);
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = "No such file or directory (os error 2); the sources are still watched";
    assert_eq!(ran.err.matches(told).count(), 1, "{}", ran.err);
}

#[test]
fn one_watcher_at_a_time() {
    let sandbox = Sandbox::new();
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2080));
    let watcher = watch(&sandbox, "pairs", &[]);
    has(&sandbox, "a.example", 2080);
    let is_refused = || {
        let error = sandbox.fails(&["cert", "import", "pairs", "--watch"]);
        assert!(error.contains("another import watches"), "{error}");
    };
    is_refused();
    assert_eq!(end(watcher).code, Some(0));
    let mut watcher = watch(&sandbox, "pairs", &[]);
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2081));
    has(&sandbox, "a.example", 2081);
    // The lease of one that is killed ends by itself.
    watcher.kill().expect("it runs");
    watcher.wait().expect("it ends");
    is_refused();
    let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a store");
    let expire = "UPDATE documents SET expires = 1 WHERE key LIKE 'import-watch/%'";
    assert_eq!(store.execute(expire, []).expect("a lease"), 1);
    let watcher = watch(&sandbox, "pairs", &[]);
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2082));
    has(&sandbox, "a.example", 2082);
    assert_eq!(end(watcher).code, Some(0));
}

#[test]
fn what_is_gone_is_removed() {
    let sandbox = Sandbox::new();
    for host in ["a.example", "b.example"] {
        write(&sandbox, &format!("pairs/{host}"), &until_year(host, 2080));
    }
    let watcher = watch(&sandbox, "pairs", &["--prune"]);
    has(&sandbox, "b.example", 2080);
    remove(&sandbox, "b.example");
    is_removed(&sandbox, "b.example");
    // A mount that is gone removes nothing.
    fs::rename(sandbox.path("pairs"), sandbox.path("gone")).expect("a folder");
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    thread::sleep(Duration::from_secs(3));
    assert!(sandbox.ok(&["host", "list"]).contains("a.example"));
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err.contains("has no pairs of the layout flat"),
        "{}",
        ran.err
    );
}

#[test]
fn a_line_of_a_list_may_get_names() {
    let sandbox = Sandbox::new();
    let pair = until_year("*.a.example", 2080);
    sandbox.write("all.pem", &(pair.key_pem() + &pair.chain_pem()));
    // Both lines have one file.
    let lines = "all.pem [alpn h2] one.a.example\nall.pem two.a.example";
    sandbox.write("list", &format!("{lines}\n"));
    sandbox.ok(&["cert", "import", "list"]);
    let watcher = watch(&sandbox, "list", &["--prune"]);
    sandbox.write("list", &format!("{lines} three.a.example\n"));
    has(&sandbox, "three.a.example", 2080);
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.out.contains("removed"), "{}", ran.out);
    has(&sandbox, "one.a.example", 2080);
    has(&sandbox, "two.a.example", 2080);
}

#[test]
fn a_renewed_pair_leaves_hosts_to_the_pair_that_is_named_for_them() {
    let sandbox = Sandbox::new();
    let both = |year: i32| {
        let names = ["a.example", "b.example"];
        let pair = ca().issue_valid(&names, Key::P256, (2020, 1, 1), (year, 1, 1));
        write(&sandbox, "pairs/both", &pair);
    };
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2080));
    both(2090);
    let watcher = watch(&sandbox, "pairs", &[]);
    has(&sandbox, "b.example", 2090);
    for year in [2091, 2092] {
        both(year);
        has(&sandbox, "b.example", year);
        let shown = sandbox.json(&["cert", "show", "a.example", "--json"]);
        assert_eq!(shown[0]["not_after"], "2080-01-01T00:00:00Z");
    }
    // Its own pair is renewed.
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2081));
    has(&sandbox, "a.example", 2081);
    assert_eq!(end(watcher).code, Some(0));
}

#[test]
fn what_is_gone_is_removed_once_a_refusal_is_over() {
    let sandbox = Sandbox::new();
    for host in ["a.example", "b.example"] {
        write(&sandbox, &format!("pairs/{host}"), &until_year(host, 2080));
    }
    let watcher = watch(&sandbox, "pairs", &["--prune", "--every", "1s"]);
    has(&sandbox, "b.example", 2080);
    // Nobody knows the hosts of half a pair.
    sandbox.write("pairs/half.example.crt", "");
    remove(&sandbox, "b.example");
    thread::sleep(Duration::from_secs(3));
    assert!(sandbox.ok(&["host", "list"]).contains("b.example"));
    fs::remove_file(sandbox.path("pairs/half.example.crt")).expect("a file");
    is_removed(&sandbox, "b.example");
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = "half.example.key, which was refused, are unknown";
    assert!(ran.err.contains(told), "{}", ran.err);
}

/// The bound of `--prune` is that of a day.
#[test]
fn a_source_that_vanishes_slowly_is_not_followed() {
    let sandbox = Sandbox::new();
    for host in ["a.example", "b.example", "c.example"] {
        write(&sandbox, &format!("pairs/{host}"), &until_year(host, 2080));
    }
    let watcher = watch(&sandbox, "pairs", &["--prune"]);
    has(&sandbox, "c.example", 2080);
    remove(&sandbox, "c.example");
    is_removed(&sandbox, "c.example");
    remove(&sandbox, "b.example");
    thread::sleep(Duration::from_secs(4));
    assert!(sandbox.ok(&["host", "list"]).contains("b.example"));
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = "no longer has 2 of 3 hosts: nothing is removed";
    assert!(ran.err.contains(told), "{}", ran.err);
}

/// A watcher keeps the layout of its first round.
#[test]
fn a_file_of_another_layout_stops_no_renewal() {
    let sandbox = Sandbox::new();
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2080));
    let watcher = watch(&sandbox, "pairs", &[]);
    has(&sandbox, "a.example", 2080);
    sandbox.write("pairs/old/fullchain.pem", "");
    sandbox.write("pairs/b.example.pem", "");
    write(&sandbox, "pairs/a.example", &until_year("a.example", 2081));
    has(&sandbox, "a.example", 2081);
    assert_eq!(end(watcher).code, Some(0));
}

fn remove(sandbox: &Sandbox, host: &str) {
    for ending in ["crt", "key"] {
        let file = sandbox.path(&format!("pairs/{host}.{ending}"));
        fs::remove_file(file).expect("a file");
    }
}

fn is_removed(sandbox: &Sandbox, host: &str) {
    until(&format!("{host} is removed"), SOON, || {
        !sandbox.ok(&["host", "list"]).contains(host)
    });
}
