//! Compares help and error texts with the snapshots beside this file.
//! `SEKISHO_UPDATE_SNAPSHOTS=1 cargo test --test binary snapshots` updates
//! them.

use std::env;
use std::fs;
use std::path::Path;

use crate::sandbox::Sandbox;

const COMMANDS: &[&str] = &[
    "",
    "init",
    "serve",
    "reload",
    "upgrade",
    "status",
    "check",
    "config",
    "config show",
    "demo",
    "completions",
    "host",
    "host set",
    "host show",
    "host list",
    "host suspend",
    "host resume",
    "host remove",
    "tenant",
    "tenant list",
    "tenant suspend",
    "tenant resume",
    "cert",
    "cert import",
    "cert issue",
    "cert renew",
    "cert revoke",
    "cert show",
    "cert list",
    "cert remove",
    "cert export",
    "acme",
    "acme account",
    "acme account show",
    "acme account import",
    "acme account rotate",
    "acme account deactivate",
    "key",
    "key new",
    "key rotate",
    "key list",
    "key remove",
    "hook",
    "hook test",
    "store",
    "store copy",
    "store backup",
    "store upgrade",
];

#[test]
fn every_help_is_as_it_was() {
    let sandbox = Sandbox::new();
    for &command in COMMANDS {
        let args = command.split_whitespace().chain(["--help"]);
        let args: Vec<_> = args.collect();
        let output = sandbox.command(&args).env("COLUMNS", "100").output();
        let help = String::from_utf8(output.expect("it runs").stdout).expect("UTF-8");
        let name = match command {
            "" => "sekisho".to_owned(),
            command => command.replace(' ', "-"),
        };
        compare(&format!("help/{name}.txt"), &help);
    }
}

#[test]
fn every_error_is_as_it_was() {
    let sandbox = Sandbox::new();
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n";
    sandbox.write("cut.pem", broken);
    sandbox.write("empty.pem", "");
    sandbox.write("pairs/README", "");
    let mistakes = "[listen]\nhtps = []\n[server]\nworkers = 0\nrequests = 100\n[tickets]\n\
                    key_file = \"tickets.key\"\n";
    sandbox.write("mistakes.toml", mistakes);
    sandbox.write("nothing/README", "");
    sandbox.ok(&["host", "set", "a.example"]);
    let mut text = String::new();
    for line in [
        "frobnicate",
        "check --config nowhere.toml",
        "check --config mistakes.toml",
        "init",
        "host set a..b",
        "host set 127.0.0.1",
        "host set b.example --redirect nonsense",
        "host show none.example",
        "host remove none.example",
        "host suspend none.example",
        "host list --expiring 30d --expired",
        "host list --expiring soon",
        "tenant suspend nobody",
        "cert show a.example",
        "cert show cert:12",
        "cert export cert:0000000000000001",
        "cert import --chain empty.pem --key empty.pem",
        "cert import --chain cut.pem --key empty.pem",
        "cert import --chain none.pem --key empty.pem",
        "cert import --chain empty.pem --key empty.pem --ca empty.pem",
        "cert import --dir pairs",
        "cert import --dir none",
        "key remove 00000000",
        "store backup hosts.db",
        "store copy sqlite:none.db sqlite:new.db",
        "store copy sqlite:hosts.db nonsense:new.db",
        "demo --dir nothing",
    ] {
        let args: Vec<_> = line.split(' ').collect();
        let output = sandbox.command(&args).env("COLUMNS", "100").output();
        let output = output.expect("it runs");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        let code = output.status.code().expect("it ends by itself");
        text.push_str(&format!("$ sekisho {line}\n{said}[{code}]\n\n"));
    }
    let folder = sandbox.root().canonicalize().expect("a folder");
    let text = text.replace(folder.to_str().expect("UTF-8"), "DIR");
    compare("errors.txt", &text);
}

/// Compares a text with a file, or updates the file.
fn compare(name: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/binary")
        .join(name);
    if env::var_os("SEKISHO_UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        fs::write(&file, text).expect("a file");
        return;
    }
    let known = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        text == known,
        "{name} differs; look at it, and write it with SEKISHO_UPDATE_SNAPSHOTS=1:\n{text}"
    );
}
