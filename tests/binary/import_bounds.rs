//! Tests of which number `--prune` takes its bound: what the source had before.

use std::fs;
use std::process::Child;
use std::thread;
use std::time::Duration;

use sekisho_testkit::Key;

use crate::import_watch::{end, has, watch};
use crate::sandbox::{Sandbox, ca};

const PRUNE: [&str; 4] = ["cert", "import", "pairs", "--prune"];
/// Hosts of one bundle, which go in one step.
const TWO: [&str; 2] = ["x.example", "y.example"];

/// Writes a bundle in one step.
fn bundle(sandbox: &Sandbox, name: &str, names: &[&str], key: Key) {
    let pair = ca().issue_valid(names, key, (2020, 1, 1), (2080, 1, 1));
    sandbox.write("new", &(pair.key_pem() + &pair.chain_pem()));
    let file = sandbox.path(&format!("pairs/{name}.pem"));
    fs::rename(sandbox.path("new"), file).expect("a folder");
}

/// Makes a source of ten hosts.
fn source() -> Sandbox {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    for number in 0..8 {
        let host = format!("h{number}.example");
        bundle(&sandbox, &host, &[&host], Key::P256);
    }
    bundle(&sandbox, "two", &TWO, Key::P256);
    sandbox
}

/// Adds forty hosts with keys of these types to the source, and takes two of the ten away. Among
/// fifty hosts that would be one in twenty.
fn change(sandbox: &Sandbox, keys: &[Key]) {
    for number in 0..40 {
        let host = format!("new{number}.example");
        for key in keys {
            bundle(sandbox, &format!("{host}-{key:?}"), &[&host], *key);
        }
    }
    fs::remove_file(sandbox.path("pairs/two.pem")).expect("a file");
}

/// Expects that neither a dry run nor an import removes anything.
fn refuses(sandbox: &Sandbox, more: &[&str], told: &str) {
    for mode in [&["--dry-run"][..], &[]] {
        let error = sandbox.fails(&[&PRUNE[..], more, mode].concat());
        assert!(error.contains(told), "{mode:?}: {error}");
    }
    for host in TWO {
        sandbox.ok(&["cert", "show", host]);
    }
}

/// Expects that several rounds of a watcher remove nothing.
fn keeps(sandbox: &Sandbox, watcher: Child) {
    has(sandbox, "new39.example", 2080);
    thread::sleep(Duration::from_secs(5));
    let ran = end(watcher);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let told = "no longer has 2 of 10 hosts: nothing is removed";
    assert!(ran.err.contains(told), "{}", ran.err);
    assert!(!ran.out.contains("removed"), "{}", ran.out);
    for host in TWO {
        sandbox.ok(&["cert", "show", host]);
    }
}

#[test]
fn hosts_of_earlier_rounds_do_not_raise_the_bound() {
    let sandbox = source();
    let watcher = watch(&sandbox, "pairs", &["--prune", "--every", "1s"]);
    has(&sandbox, TWO[1], 2080);
    // The first round ends.
    thread::sleep(Duration::from_secs(1));
    change(&sandbox, &[Key::P256]);
    keeps(&sandbox, watcher);
}

#[test]
fn what_the_first_round_refuses_later_ones_refuse() {
    let sandbox = source();
    sandbox.ok(&PRUNE);
    change(&sandbox, &[Key::P256]);
    let watcher = watch(&sandbox, "pairs", &["--prune", "--every", "1s"]);
    keeps(&sandbox, watcher);
}

#[test]
fn two_certificates_of_a_host_do_not_raise_the_bound() {
    let sandbox = source();
    sandbox.ok(&PRUNE);
    change(&sandbox, &[Key::P256, Key::Ed25519]);
    refuses(&sandbox, &[], "no longer has 2 of 10 hosts");
}

/// Hosts that others made count by their certificates.
#[test]
fn certificates_for_existing_hosts_do_not_raise_the_bound() {
    let sandbox = source();
    let ours = (0..8).map(|number| format!("h{number}.example"));
    let new = (0..40).map(|number| format!("new{number}.example"));
    for host in ours.chain(new).chain(TWO.map(str::to_owned)) {
        sandbox.ok(&["host", "set", &host]);
    }
    let only = ["--only-existing"];
    sandbox.ok(&[&PRUNE[..], &only].concat());
    change(&sandbox, &[Key::P256]);
    refuses(&sandbox, &only, "no longer has 2 of 9 hosts");
}
