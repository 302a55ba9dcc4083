//! Tests imports of folders.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::Key;
use serde_json::Value;

use crate::sandbox::{Ran, SOON, Sandbox, ca, until};

#[test]
fn a_flat_folder_is_named_after_its_hosts() {
    let sandbox = Sandbox::new();
    sandbox.pair(
        "pairs/a.example",
        &["a.example", "www.a.example"],
        Key::P256,
    );
    sandbox.pair("pairs/_.b.example", &["*.b.example"], Key::Rsa2048);
    sandbox.pair("pairs/wrong.example", &["other.example"], Key::P256);
    sandbox.pair("pairs/a b.example", &["a.example"], Key::P256);
    sandbox.pair("pairs/half.example", &["half.example"], Key::P256);
    std::fs::remove_file(sandbox.path("pairs/half.example.key")).expect("a file");
    sandbox.write("pairs/lonely.example.key", "");
    sandbox.write("pairs/README", "not a pair");

    let ran = sandbox.run(&["cert", "import", "--dir", "pairs", "--named-only"]);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(
        ran.out
            .contains("imported 2, replaced 0, skipped 0 (the same), refused 4"),
        "{}",
        ran.out
    );
    for refused in [
        "wrong.example.crt: the certificate is for other.example, not for wrong.example",
        "a b.example.crt: the source names no host for it",
        "half.example.key: is missing",
        "lonely.example.key: lonely.example.crt is missing",
    ] {
        assert!(ran.err.contains(refused), "{refused}: {}", ran.err);
    }
    assert_eq!(names(&sandbox), ["*.b.example", "a.example"]);
}

#[test]
fn a_certbot_folder_takes_the_names_of_the_leaf() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example", "www.a.example"], Key::P256);
    sandbox.write("live/anything/fullchain.pem", &pair.chain_pem());
    sandbox.write("live/anything/privkey.pem", &pair.key_pem());
    sandbox.write("live/broken/fullchain.pem", &pair.chain_pem());
    sandbox.write("live/.hidden/fullchain.pem", &pair.chain_pem());
    sandbox.write("live/README", "not a pair");
    let import = ["cert", "import", "--dir", "live", "--layout", "certbot"];
    let ran = sandbox.run(&import);
    assert!(
        ran.out.contains("imported 1") && ran.out.contains("refused 1"),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("broken/privkey.pem: is missing"),
        "{}",
        ran.err
    );
    assert_eq!(names(&sandbox), ["a.example", "www.a.example"]);

    // A renewal, and the same folder a second time.
    let renewed = ca().issue(&["a.example", "www.a.example"], Key::P256);
    sandbox.write("live/anything/fullchain.pem", &renewed.chain_pem());
    sandbox.write("live/anything/privkey.pem", &renewed.key_pem());
    std::fs::remove_dir_all(sandbox.path("live/broken")).expect("a folder");
    assert!(sandbox.ok(&import).contains("replaced 1"));
    assert!(sandbox.ok(&import).contains("skipped 1"));
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(
        list.as_array().map(Vec::len),
        Some(1),
        "the old one is gone"
    );
}

#[test]
fn of_two_certificates_for_one_host_the_longer_valid_is_stored() {
    let sandbox = Sandbox::new();
    for (folder, year) in [("a", 2090), ("b", 2099), ("c", 2095)] {
        let pair = ca().issue_valid(&["a.example"], Key::P256, (2020, 1, 1), (year, 1, 1));
        sandbox.write(&format!("live/{folder}/fullchain.pem"), &pair.chain_pem());
        sandbox.write(&format!("live/{folder}/privkey.pem"), &pair.key_pem());
    }
    for _ in 0..2 {
        sandbox.ok(&["cert", "import", "--dir", "live", "--layout", "certbot"]);
        let shown = sandbox.json(&["cert", "list", "--json"]);
        assert_eq!(shown.as_array().map(Vec::len), Some(1));
        assert_eq!(shown[0]["not_after"], "2099-01-01T00:00:00Z");
    }
}

#[test]
fn the_longer_valid_is_stored_over_many_batches() {
    // More than two batches lie between the first and the last pair.
    const BETWEEN: usize = 2100;
    let sandbox = Sandbox::new();
    let write = |folder: &str, pair: &sekisho_testkit::Pair| {
        sandbox.write(&format!("live/{folder}/fullchain.pem"), &pair.chain_pem());
        sandbox.write(&format!("live/{folder}/privkey.pem"), &pair.key_pem());
    };
    // A file system may list folders in the order of creation, backwards, or in
    // neither.
    let of_both = |side: &str, until: [i32; 2]| {
        for number in 0..16 {
            let until = until[number % 2];
            let host = format!("host-{number}.example");
            let pair = ca().issue_valid(&[&host], Key::P256, (2020, 1, 1), (until, 1, 1));
            write(&format!("{side}-{number}"), &pair);
        }
    };
    of_both("first", [2090, 2099]);
    let between = ca().issue(&["between.example"], Key::P256);
    for number in 0..BETWEEN {
        write(&format!("between-{number}"), &between);
    }
    of_both("last", [2099, 2090]);
    for _ in 0..2 {
        sandbox.ok(&["cert", "import", "--dir", "live", "--layout", "certbot"]);
        let list = sandbox.json(&["cert", "list", "--json"]);
        let list = list.as_array().expect("an array");
        assert_eq!(list.len(), 17);
        for credential in list {
            let is_between = credential["names"][0] == "between.example";
            let until = credential["not_after"].as_str().expect("a time");
            assert!(is_between || until.starts_with("2099"), "{credential}");
        }
    }
    // Another import may replace a certificate by one with a shorter validity.
    let shorter = ca().issue_valid(&["host-0.example"], Key::P256, (2020, 1, 1), (2080, 1, 1));
    sandbox.write("shorter.crt", &shorter.chain_pem());
    sandbox.write("shorter.key", &shorter.key_pem());
    let pair = ["--chain", "shorter.crt", "--key", "shorter.key"];
    let out = sandbox.ok(&[&["cert", "import"], &pair[..]].concat());
    assert!(out.contains("replaced 1"), "{out}");
}

#[test]
fn several_hosts_may_stand_behind_one_flag() {
    let sandbox = Sandbox::new();
    let named = ["a.example", "b.example", "c.example", "d.example"];
    sandbox.pair("all", &named, Key::P256);
    let pair = ["cert", "import", "--chain", "all.crt", "--key", "all.key"];
    let hosts = ["--host", "a.example", "b.example", "--host", "c.example"];
    sandbox.ok(&[&pair[..], &hosts].concat());
    assert_eq!(names(&sandbox), &named[..3]);
    let ran = sandbox.run(&[&pair[..], &["--host"]].concat());
    assert_eq!(ran.code, Some(2), "{}", ran.err);
}

#[test]
fn an_import_that_fails_midway_tells_how_far_it_came() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "first.example"]);
    let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a database");
    let fail = "CREATE TRIGGER fail BEFORE INSERT ON hosts
        WHEN (SELECT count(*) FROM hosts) > 1000
        BEGIN SELECT RAISE(ABORT, 'no more'); END";
    store.execute_batch(fail).expect("a trigger");
    let pair = ca().issue(&["*.pairs.example"], Key::P256);
    for number in 0..1500 {
        let stem = format!("pairs/{number}.pairs.example");
        sandbox.write(&format!("{stem}.crt"), &pair.chain_pem());
        sandbox.write(&format!("{stem}.key"), &pair.key_pem());
    }
    let import = ["cert", "import", "--dir", "pairs", "--named-only"];
    let error = sandbox.fails(&import).replace(',', "");
    let counts = "stopped: imported 1000 replaced 0 skipped 0 (the same) refused 0";
    assert!(error.contains(counts), "{error}");
    store.execute_batch("DROP TRIGGER fail").expect("a trigger");
    let out = sandbox.ok(&import).replace(',', "");
    assert!(
        out.contains("imported 500 replaced 0 skipped 1000"),
        "{out}"
    );
}

#[test]
fn hosts_whose_files_repeat_a_certificate_share_it() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example", "b.example"], Key::P256);
    for host in ["a.example", "b.example"] {
        sandbox.write(&format!("pairs/{host}.crt"), &pair.chain_pem());
        sandbox.write(&format!("pairs/{host}.key"), &pair.key_pem());
    }
    sandbox.ok(&["cert", "import", "--dir", "pairs"]);
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    let pair = ca().issue(&["a.example", "b.example"], Key::P256);
    sandbox.write("pairs/a.example.crt", &pair.chain_pem());
    sandbox.write("pairs/a.example.key", &pair.key_pem());
    let out = sandbox.ok(&["cert", "import", "--dir", "pairs"]);
    assert!(out.contains("replaced 1, skipped 1"), "{out}");
}

#[test]
fn an_import_that_is_killed_goes_on_where_it_was() {
    const PAIRS: usize = 6000;
    let sandbox = Sandbox::new();
    for number in 0..PAIRS {
        let host = format!("host-{number:04}.example");
        sandbox.pair(&format!("pairs/{host}"), &[&host], Key::P256);
    }
    let mut import = sandbox
        .command(&["cert", "import", "--dir", "pairs"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // When the first batch is stored, most pairs are not.
    let mut list = Vec::new();
    until("the first batch", Duration::from_secs(60), || {
        if sandbox.path("hosts.db").exists() {
            let ran = sandbox.run(&["host", "list"]);
            list = ran.out.lines().map(str::to_owned).collect();
        }
        !list.is_empty()
    });
    // Sends SIGKILL.
    import.kill().expect("it runs");
    let killed = Ran::of(&import.wait_with_output().expect("it ended"));
    assert_eq!(
        killed.code, None,
        "it ended before it was killed: {}",
        killed.out
    );

    let half = names(&sandbox);
    assert!(
        (1000..PAIRS).contains(&half.len()),
        "{} were stored",
        half.len()
    );
    assert_eq!(half.len() % 1000, 0, "a batch was torn apart");
    let out = sandbox.ok(&["cert", "import", "--dir", "pairs"]);
    let (left, done) = (PAIRS - half.len(), half.len());
    let counts = out.replace(',', "");
    assert!(
        counts.contains(&format!("imported {left} replaced 0 skipped {done}")),
        "{out}"
    );
    assert_eq!(names(&sandbox).len(), PAIRS);
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(PAIRS), "each once");
}

#[test]
fn two_imports_at_once_both_succeed() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "first.example"]);
    for number in 0..300 {
        let host = format!("host-{number:04}.example");
        sandbox.pair(&format!("pairs/{host}"), &[&host], Key::P256);
    }
    let start = || {
        sandbox
            .command(&["cert", "import", "--dir", "pairs"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs")
    };
    for import in [start(), start()] {
        let ran = Ran::of(&import.wait_with_output().expect("it ends"));
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    assert_eq!(names(&sandbox).len(), 301);
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(300), "each once");
}

#[test]
fn a_folder_that_is_not_there_is_an_error() {
    let sandbox = Sandbox::new();
    let error = sandbox.fails(&["cert", "import", "--dir", "nowhere"]);
    assert!(error.contains("nowhere"), "{error}");
}

fn names(sandbox: &Sandbox) -> Vec<String> {
    let list: Value = sandbox.json(&["host", "list", "--json"]);
    let hosts = list.as_array().expect("an array").iter();
    hosts
        .map(|host| host["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// SIGINT ends an import behind what it is writing, and tells what that was.
#[test]
fn an_interrupted_import_tells_what_it_stored() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sandbox.pair("pairs/b.example", &["b.example"], Key::P256);
    let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a store");
    store.execute_batch("BEGIN IMMEDIATE").expect("a writer");
    let mut import = sandbox.command(&["cert", "import", "--dir", "pairs"]);
    let import = import
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let status = format!("/proc/{}/status", import.id());
    until("SIGINT is caught", SOON, || {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 1 << (Signal::INT.as_raw() - 1) != 0)
    });
    let pid = Pid::from_child(&import);
    kill_process(pid, Signal::INT).expect("it runs");
    store.execute_batch("ROLLBACK").expect("a writer");
    let output = import.wait_with_output().expect("it ends");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    let told = "what was stored stays, run it again to go on: interrupted";
    assert!(
        error.contains("imported 1") && error.contains(told),
        "{error}"
    );
    assert!(sandbox.ok(&["host", "list"]).contains("b.example"));
}
