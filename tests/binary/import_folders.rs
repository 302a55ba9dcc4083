//! Tests imports of unusual folders and files.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::process::Command;

use sekisho_testkit::Key;

use crate::sandbox::{Ran, Sandbox, ca};

const IMPORT: [&str; 4] = ["cert", "import", "--dir", "pairs"];
const PAIR: [&str; 6] = ["cert", "import", "--chain", "a.crt", "--key", "a.key"];

#[test]
fn a_folder_without_pairs_is_an_error_that_names_the_layout() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    let error = sandbox.fails(&IMPORT);
    assert!(error.contains("nothing to import among 0 files"), "{error}");
    sandbox.pair("pairs/x/fullchain", &["a.example"], Key::P256);
    fs::rename(
        sandbox.path("pairs/x/fullchain.crt"),
        sandbox.path("pairs/x/fullchain.pem"),
    )
    .expect("a file");
    let error = sandbox.fails(&[&IMPORT[..], &["--layout", "flat"]].concat());
    assert!(error.contains("no pairs of the layout flat"), "{error}");
    // Without --layout it is recognised, and lacks a half.
    let error = sandbox.fails(&IMPORT);
    for wanted in ["reading the layout of certbot", "privkey.pem: is missing"] {
        assert!(error.contains(wanted), "{error}");
    }
    sandbox.write("strange/README", "nothing");
    let error = sandbox.fails(&["cert", "import", "--dir", "strange"]);
    assert!(error.contains("--chain and --key"), "{error}");
}

#[test]
fn all_names_are_served_and_named_only_is_the_old_way() {
    let sandbox = Sandbox::new();
    let names = ["a.example", "www.a.example", "mail.a.example"];
    sandbox.pair("pairs/a.example", &names, Key::P256);
    let ran = sandbox.run(&[&IMPORT[..], &["--named-only"]].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(hosts(&sandbox), ["a.example"]);
    // --all-names was needed for it once.
    for option in [&[][..], &["--all-names"]] {
        let ran = sandbox.run(&[&IMPORT[..], option].concat());
        let told = "reading the layout of flat in ";
        assert_eq!((ran.code, ran.err.lines().count()), (Some(0), 1));
        assert!(ran.err.starts_with(told), "{}", ran.err);
        assert_eq!(hosts(&sandbox).len(), 3);
    }
}

#[test]
fn a_wildcard_may_be_spelled_out() {
    let sandbox = Sandbox::new();
    sandbox.pair("pairs/wildcard_.b.example", &["*.b.example"], Key::P256);
    sandbox.ok(&IMPORT);
    assert_eq!(hosts(&sandbox), ["*.b.example"]);
}

#[test]
fn a_fifo_is_refused_at_once() {
    let sandbox = Sandbox::new();
    sandbox.pair("a", &["a.example"], Key::P256);
    let fifo = sandbox.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("it runs").success());
    let mut args = PAIR;
    args[3] = "fifo";
    let error = sandbox.fails(&args);
    assert!(error.contains("fifo: is not a regular file"), "{error}");
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    fs::rename(&fifo, sandbox.path("pairs/a.example.crt")).expect("a file");
    let error = sandbox.fails(&IMPORT);
    assert!(error.contains("is not a regular file"), "{error}");
}

#[test]
fn strange_sources_are_told_at_once() {
    let sandbox = Sandbox::new();
    let fifo = sandbox.path("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("it runs").success());
    symlink("loop", sandbox.path("loop")).expect("a link");
    for (source, told) in [
        ("fifo", "fifo: is no file and no folder"),
        ("/dev/zero", "/dev/zero: is no file and no folder"),
        ("loop", "Too many levels of symbolic links"),
    ] {
        let error = sandbox.fails(&["cert", "import", source]);
        assert!(error.contains(told), "{error}");
    }
    // Two blocks of zeros end an archive, whatever follows.
    let mut import = sandbox.command(&["cert", "import", "-", "--layout", "flat"]);
    let zeros = fs::File::open("/dev/zero").expect("zeros");
    let ran = Ran::of(&import.stdin(zeros).output().expect("it ends"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(
        ran.err.contains("no pairs of the layout flat"),
        "{}",
        ran.err
    );
    assert!(!sandbox.path("hosts.db").exists(), "a store was made");
}

#[test]
fn a_certificate_issued_earlier_replaces_nothing() {
    let sandbox = Sandbox::new();
    let write = |from: i32, to: i32| {
        let pair = ca().issue_valid(&["a.example"], Key::P256, (from, 1, 1), (to, 1, 1));
        sandbox.write("a.crt", &pair.chain_pem());
        sandbox.write("a.key", &pair.key_pem());
    };
    let stored = || sandbox.json(&["cert", "list", "--json"])[0]["not_after"].clone();
    write(2021, 2080);
    sandbox.ok(&PAIR);
    write(2020, 2090);
    let ran = sandbox.run(&PAIR);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("skipped 0 (the same) and 1 (older)"),
        "{}",
        ran.out
    );
    for wanted in ["a.example keeps", "2021-01-01", "--replace-newer"] {
        assert!(ran.err.contains(wanted), "{wanted}: {}", ran.err);
    }
    assert_eq!(stored(), "2080-01-01T00:00:00Z");
    let out = sandbox.ok(&[&PAIR[..], &["--replace-newer"]].concat());
    assert!(out.contains("replaced 1"), "{out}");
    assert_eq!(stored(), "2090-01-01T00:00:00Z");
    // An expired certificate does not protect its host from an older one.
    write(2022, 2023);
    sandbox.ok(&[&PAIR[..], &["--allow-expired"]].concat());
    write(2020, 2090);
    assert!(sandbox.ok(&PAIR).contains("replaced 1"));
}

#[test]
fn names_of_files_reach_the_terminal_escaped() {
    let sandbox = Sandbox::new();
    sandbox.import(&["first.example"]);
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    let name = OsStr::from_bytes(b"a\nb\x1b[31m.crt");
    fs::write(sandbox.path("pairs").join(name), "").expect("a file");
    let error = sandbox.fails(&IMPORT);
    assert!(error.contains("a\\nb\\u{1b}[31m.key"), "{error}");
    assert!(!error.contains('\u{1b}'), "{error}");
    assert_eq!(error.lines().count(), 2, "{error}");
    let error = sandbox.fails(&["check", "--config", "x\u{1b}[2J"]);
    assert!(!error.contains('\u{1b}'), "{error}");
}

#[test]
fn refusals_are_grouped_and_json_has_all() {
    let sandbox = Sandbox::new();
    sandbox.import(&["first.example"]);
    for number in 0..30 {
        sandbox.write(&format!("pairs/half-{number}.example.crt"), "");
        sandbox.write(&format!("pairs/empty-{number}.example.crt"), "");
        sandbox.write(&format!("pairs/empty-{number}.example.key"), "");
    }
    sandbox.pair("pairs/good.example", &["good.example"], Key::P256);
    let ran = sandbox.run(&IMPORT);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert_eq!(ran.err.lines().count(), 9, "{}", ran.err);
    for group in ["half of the pair is missing", "there is no certificate"] {
        let more = format!("refused: 27 more: {group}");
        assert!(ran.err.contains(&more), "{}", ran.err);
    }
    let ran = sandbox.run(&[&IMPORT[..], &["--json"]].concat());
    assert_eq!((ran.code, &*ran.err), (Some(1), ""));
    let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(json["refused"].as_array().map(Vec::len), Some(60));
    assert_eq!(
        (&json["imported"], &json["skipped"]),
        (&0.into(), &1.into())
    );
    let ran: Ran = sandbox.run(&[&PAIR[..], &["--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(json["refused"][0]["file"], "a.crt");
}

#[test]
fn a_leaf_of_a_private_authority_may_stand_alone() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example"], Key::P256);
    sandbox.write("a.crt", &pair.leaf_pem());
    sandbox.write("a.key", &pair.key_pem());
    let error = sandbox.fails(&PAIR);
    assert!(error.contains("--ca FILE"), "{error}");
    let chain = pair.chain_pem();
    let (_, issuer) = chain.split_at(pair.leaf_pem().len());
    sandbox.write("ca.pem", issuer);
    sandbox.ok(&[&PAIR[..], &["--ca", "ca.pem"]].concat());
    sandbox.write("ca.pem", "nothing");
    let error = sandbox.fails(&[&PAIR[..], &["--ca", "ca.pem"]].concat());
    assert!(
        error.contains("--ca ca.pem: holds no certificate"),
        "{error}"
    );
}

#[test]
fn a_common_name_alone_is_no_name() {
    let sandbox = Sandbox::new();
    sandbox.pair("a", &[], Key::P256);
    let error = sandbox.fails(&PAIR);
    assert!(error.contains("not in the common name"), "{error}");
}

fn hosts(sandbox: &Sandbox) -> Vec<String> {
    sandbox
        .ok(&["host", "list"])
        .lines()
        .map(|line| {
            line.split_whitespace()
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}
