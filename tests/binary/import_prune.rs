//! Tests how an import removes what its source no longer has.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use data_encoding::BASE64;
use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::Key;

use crate::sandbox::{Ran, SOON, Sandbox, ca, until};

const PRUNE: [&str; 4] = ["cert", "import", "pairs", "--prune"];

/// Makes a folder of pairs, and imports it.
fn imported(hosts: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    for host in hosts {
        sandbox.pair(&format!("pairs/{host}"), &[host], Key::P256);
    }
    sandbox.ok(&["cert", "import", "pairs"]);
    sandbox
}

fn remove(sandbox: &Sandbox, host: &str) {
    for ending in ["crt", "key"] {
        let file = sandbox.path(&format!("pairs/{host}.{ending}"));
        fs::remove_file(file).expect("a file");
    }
}

fn hosts(sandbox: &Sandbox) -> Vec<String> {
    let list = sandbox.json(&["host", "list", "--json"]);
    let hosts = list.as_array().expect("an array").iter();
    let name = |host: &serde_json::Value| host["name"].as_str().expect("a name").to_owned();
    hosts.map(name).collect()
}

#[test]
fn what_the_source_no_longer_has_is_removed() {
    let sandbox = imported(&["a.example", "b.example"]);
    remove(&sandbox, "b.example");
    assert!(!sandbox.ok(&["cert", "import", "pairs"]).contains("removed"));
    let out = sandbox.ok(&[&PRUNE[..], &["--dry-run"]].concat());
    assert!(
        out.contains("skipped 1 (the same), removed 1, refused 0"),
        "{out}"
    );
    assert_eq!(hosts(&sandbox), ["a.example", "b.example"]);
    let out = sandbox.ok(&[&PRUNE[..], &["--report", "report"]].concat());
    assert!(
        out.contains("skipped 1 (the same), removed 1, refused 0"),
        "{out}"
    );
    assert_eq!(hosts(&sandbox), ["a.example"]);
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(
        list.as_array().map(Vec::len),
        Some(1),
        "its certificate went with it"
    );
    let report = fs::read_to_string(sandbox.path("report")).expect("a report");
    let removed = report.lines().filter(|line| line.contains("\"removed\""));
    let removed: Vec<_> = removed.collect();
    assert!(
        matches!(removed[..], [line] if line.contains("b.example")),
        "{report}"
    );
    assert!(!sandbox.ok(&PRUNE).contains("removed"));
}

#[test]
fn more_than_a_twentieth_needs_a_number() {
    let names: Vec<_> = (0..40).map(|number| format!("h{number}.example")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let sandbox = imported(&names);
    for host in &names[..3] {
        remove(&sandbox, host);
    }
    let error = sandbox.fails(&PRUNE);
    let told = "no longer has 3 of 40 hosts: nothing is removed; --prune-at-most 3 allows it";
    assert!(error.contains(told), "{error}");
    assert_eq!(hosts(&sandbox).len(), 40);
    let out = sandbox.ok(&[&PRUNE[..], &["--prune-at-most", "3"]].concat());
    assert!(out.contains("removed 3"), "{out}");
    assert_eq!(hosts(&sandbox).len(), 37);
}

#[test]
fn a_gone_mount_prunes_nothing() {
    let sandbox = imported(&["a.example", "b.example"]);
    fs::rename(sandbox.path("pairs"), sandbox.path("gone")).expect("a folder");
    assert!(sandbox.fails(&PRUNE).contains("No such file"));
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    assert!(
        sandbox
            .fails(&PRUNE)
            .contains("nothing to import among 0 files")
    );
    let flat = [&PRUNE[..], &["--layout", "flat"]].concat();
    assert!(sandbox.fails(&flat).contains("no pairs of the layout flat"));
    assert_eq!(hosts(&sandbox).len(), 2);
    let out = sandbox.ok(&[&flat[..], &["--prune-at-most", "2"]].concat());
    assert!(out.contains("removed 2"), "{out}");
    assert!(hosts(&sandbox).is_empty());
}

#[test]
fn what_others_touched_stays() {
    let sandbox = imported(&["a.example", "b.example", "c.example"]);
    sandbox.ok(&["host", "set", "mine.example"]);
    sandbox.pair("pairs/mine.example", &["mine.example"], Key::P256);
    sandbox.ok(&["cert", "import", "pairs"]);
    // One is edited, one gets its certificate from elsewhere.
    sandbox.ok(&["host", "set", "b.example", "--tenant", "anna"]);
    sandbox.import(&["c.example"]);
    for host in ["b.example", "c.example", "mine.example"] {
        remove(&sandbox, host);
    }
    let out = sandbox.ok(&[&PRUNE[..], &["--prune-at-most", "2"]].concat());
    assert!(out.contains("removed 2"), "{out}");
    assert_eq!(
        hosts(&sandbox),
        ["a.example", "b.example", "c.example", "mine.example"]
    );
    // Of those that stay, the source's certificates are gone.
    for (host, has) in [
        ("b.example", false),
        ("c.example", true),
        ("mine.example", false),
    ] {
        let ran = sandbox.run(&["cert", "show", host]);
        assert_eq!(ran.code == Some(0), has, "{host}: {}", ran.err);
    }
}

#[test]
fn a_refused_pair_prunes_nothing_unless_its_names_are_known() {
    let sandbox = imported(&["a.example", "b.example", "c.example"]);
    remove(&sandbox, "c.example");
    sandbox.write("pairs/b.example.crt", "cut");
    let error = sandbox.fails(&PRUNE);
    let told = "b.example.crt, which was refused, are unknown";
    assert!(
        error.contains("nothing is removed: the hosts of") && error.contains(told),
        "{error}"
    );
    assert_eq!(hosts(&sandbox).len(), 3);
    let expired = ca().issue_valid(&["b.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    sandbox.write("pairs/b.example.crt", &expired.chain_pem());
    sandbox.write("pairs/b.example.key", &expired.key_pem());
    let ran = sandbox.run(&PRUNE);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("removed 1, refused 1"), "{}", ran.out);
    assert_eq!(hosts(&sandbox), ["a.example", "b.example"]);
}

#[test]
fn a_source_without_a_name_is_followed_by_one() {
    let sandbox = imported(&["a.example"]);
    let error = sandbox
        .run(&["cert", "import", "-", "--layout", "flat", "--prune"])
        .err;
    assert!(error.contains("--origin NAME"), "{error}");
    let shown = sandbox.json(&["host", "show", "a.example", "--json"]);
    let origin = shown["origin"].as_str().expect("a name");
    remove(&sandbox, "a.example");
    sandbox.pair("other/b.example", &["b.example"], Key::P256);
    sandbox.ok(&["cert", "import", "other", "--prune", "--origin", origin]);
    assert_eq!(hosts(&sandbox), ["b.example"]);
}

/// Hosts that an import makes do not raise the number of those that it may remove.
#[test]
fn the_bound_is_of_the_hosts_before_and_the_dry_run_says_the_same() {
    let before: Vec<_> = (0..10).map(|number| format!("h{number}.example")).collect();
    let before: Vec<_> = before.iter().map(String::as_str).collect();
    let sandbox = imported(&before);
    for host in &before[..2] {
        remove(&sandbox, host);
    }
    for number in 0..50 {
        let host = format!("new{number}.example");
        sandbox.pair(&format!("pairs/{host}"), &[&host], Key::P256);
    }
    let told = "no longer has 2 of 10 hosts: nothing is removed; --prune-at-most 2 allows it";
    let error = sandbox.fails(&[&PRUNE[..], &["--dry-run"]].concat());
    assert!(error.contains(told), "{error}");
    let error = sandbox.fails(&PRUNE);
    assert!(error.contains(told), "{error}");
    assert_eq!(hosts(&sandbox).len(), 60);
}

#[test]
fn hosts_that_the_source_did_not_make_count_for_the_bound() {
    let sandbox = Sandbox::new();
    for number in 0..40 {
        let host = format!("h{number}.example");
        sandbox.ok(&["host", "set", &host]);
        sandbox.pair(&format!("pairs/{host}"), &[&host], Key::P256);
    }
    let prune = [&PRUNE[..], &["--only-existing"]].concat();
    sandbox.ok(&prune);
    remove(&sandbox, "h0.example");
    remove(&sandbox, "h1.example");
    let out = sandbox.ok(&prune);
    assert!(out.contains("removed 2"), "{out}");
    assert_eq!(hosts(&sandbox).len(), 40);
}

/// Two tenants with one folder are two sources, and so are two layouts of one folder.
#[test]
fn what_another_tenant_or_layout_brought_stays() {
    let sandbox = Sandbox::new();
    let bundle = |host: &str| {
        let pair = ca().issue(&[host], Key::P256);
        pair.key_pem() + &pair.chain_pem()
    };
    sandbox.pair("pairs/a.example", &["a.example"], Key::P256);
    sandbox.write("pairs/b.example.pem", &bundle("b.example"));
    sandbox.ok(&["cert", "import", "pairs", "--layout", "flat"]);
    sandbox.ok(&["cert", "import", "pairs", "--layout", "haproxy"]);
    assert_eq!(hosts(&sandbox), ["a.example", "b.example"]);
    let flat = [&PRUNE[..], &["--layout", "flat"]].concat();
    assert!(!sandbox.ok(&flat).contains("removed"));

    let of = |tenant| [&PRUNE[..], &["--layout", "flat", "--tenant", tenant]].concat();
    let sandbox = Sandbox::new();
    sandbox.pair("pairs/a.example", &["a.example"], Key::P256);
    sandbox.ok(&of("anna"));
    remove(&sandbox, "a.example");
    sandbox.pair("pairs/b.example", &["b.example"], Key::P256);
    let out = sandbox.ok(&of("bert"));
    assert!(!out.contains("removed"), "{out}");
    assert_eq!(hosts(&sandbox), ["a.example", "b.example"]);
    let ran = sandbox.run(&of("anna"));
    assert!(ran.out.contains("removed 1, refused 1"), "{}", ran.out);
    assert_eq!(hosts(&sandbox), ["b.example"]);
}

#[test]
fn a_cut_document_or_archive_prunes_nothing() {
    let sandbox = Sandbox::new();
    let pairs = ["a.example", "b.example"].map(|host| ca().issue(&[host], Key::P256));
    let encoded = |text: String| BASE64.encode(text.as_bytes());
    let entries = pairs.each_ref().map(|pair| {
        let (chain, key) = (encoded(pair.chain_pem()), encoded(pair.key_pem()));
        format!(r#"{{"certificate":"{chain}","key":"{key}"}}"#)
    });
    let document = format!(r#"{{"le":{{"Certificates":[{}]}}}}"#, entries.join(","));
    let cut = &document[..document.len() - 100];
    for (pair, host) in pairs.iter().zip(["a.example", "b.example"]) {
        let bundle = pair.key_pem() + &pair.chain_pem();
        sandbox.write(&format!("tls/{host}/combined"), &bundle);
    }
    let mut tar = Command::new("tar");
    tar.args(["-cf", "whole.tar", "--sort=name", "tls"]);
    let status = tar.current_dir(sandbox.root()).status();
    assert!(status.expect("tar runs").success());
    let archive = fs::read(sandbox.path("whole.tar")).expect("an archive");
    // The entry of its folder comes before the second file.
    let second = archive.windows(11).position(|name| name == b"tls/b.examp");
    let second = second.expect("the second folder");

    for (file, layout, whole, cut) in [
        ("acme.json", "traefik", document.as_bytes(), cut.as_bytes()),
        ("tls.tar", "cpanel", &archive[..], &archive[..second]),
    ] {
        let sandbox = Sandbox::new();
        let import = ["cert", "import", file, "--layout", layout, "--prune"];
        fs::write(sandbox.path(file), whole).expect("a file");
        sandbox.ok(&import);
        fs::write(sandbox.path(file), cut).expect("a file");
        let error = sandbox.fails(&import);
        let told = "nothing is removed: the hosts of";
        assert!(error.contains(told), "{error}");
        assert_eq!(hosts(&sandbox), ["a.example", "b.example"], "{file}");
    }
}

/// SIGINT ends a removal, and what was removed is told.
#[test]
fn an_interrupted_removal_ends() {
    let sandbox = imported(&["a.example"]);
    remove(&sandbox, "a.example");
    let prune = [&PRUNE[..], &["--layout", "flat", "--prune-at-most", "1"]].concat();
    let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a store");
    store.execute_batch("BEGIN IMMEDIATE").expect("a writer");
    let mut import = sandbox.command(&prune);
    let import = import.stdout(Stdio::piped()).stderr(Stdio::piped());
    let import = import.spawn().expect("the binary runs");
    let status = format!("/proc/{}/status", import.id());
    until("SIGINT is caught", SOON, || {
        let status = fs::read_to_string(&status).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & 1 << (Signal::INT.as_raw() - 1) != 0)
    });
    // Nothing is imported: the removal waits for the writer.
    thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_child(&import), Signal::INT).expect("it runs");
    thread::sleep(Duration::from_secs(1));
    store.execute_batch("ROLLBACK").expect("a writer");
    let ran = Ran::of(&import.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(130), "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("interrupted"), "{}", ran.err);
    assert!(ran.out.contains("removed 1"), "{}", ran.out);
}
