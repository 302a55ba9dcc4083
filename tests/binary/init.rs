//! Tests `sekisho init`, and the master key of an embedded store.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sekisho_testkit::Key;

use crate::sandbox::Sandbox;

/// Makes a sandbox whose configuration names no master key.
fn without_keys() -> Sandbox {
    let sandbox = Sandbox::new();
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("[keys]\nmaster = \"file:master.key\"\n", "");
    let config = config.replace("sqlite:hosts.db", "sqlite:data/hosts.db");
    fs::create_dir(sandbox.path("data")).expect("a folder");
    sandbox.write("sekisho.toml", &config);
    sandbox
}

#[test]
fn init_writes_a_usable_configuration() {
    let sandbox = Sandbox::new();
    let out = sandbox.ok(&["init", "made/here"]);
    for command in ["cert import", "check", "serve"] {
        let line = out.lines().find(|line| line.contains(command));
        let line = line.unwrap_or_else(|| panic!("{command}: {out}"));
        assert!(line.contains("--config made/here/sekisho.toml"), "{line}");
    }
    assert_eq!(out.lines().count(), 4, "{out}");
    let config = fs::read_to_string(sandbox.path("made/here/sekisho.toml")).expect("a file");
    for line in config.lines().filter(|line| line.contains("443\"")) {
        assert!(
            line.contains("0.0.0.0") || line.contains("127.0.0.1"),
            "{line}"
        );
    }

    // Free ports: the usual ones may be taken here.
    let list = |key: &str, line: &str| match line.starts_with(key) {
        true => format!("{key} = [\"127.0.0.1:0\"]"),
        false => line.to_owned(),
    };
    let lines: Vec<_> = config
        .lines()
        .map(|line| list("https", &list("http ", line)))
        .map(|line| line.replace("127.0.0.1:9443", "127.0.0.1:0"))
        .collect();
    sandbox.write("sekisho.toml", &lines.join("\n"));
    sandbox.import(&["a.example"]);
    sandbox.ok(&["check"]);
    let server = sandbox.serve();
    assert!(server.fetch("a.example").is_ok());
    server.stop();

    // The commented settings can be used as well.
    let (before, acme) = config.split_once("# [acme]").expect("a comment");
    let acme = acme.replace("\n# ", "\n");
    sandbox.write("sekisho.toml", &format!("{before}[acme]{acme}"));
    sandbox.ok(&["host", "list"]);
    assert!(acme.contains("\ncas = ["), "{acme}");
}

#[test]
fn nothing_is_overwritten() {
    let sandbox = Sandbox::new();
    let before = fs::read(sandbox.path("sekisho.toml")).expect("a file");
    let error = sandbox.fails(&["init"]);
    assert!(
        error.contains("sekisho.toml exists already; it is not overwritten"),
        "{error}"
    );
    let after = fs::read(sandbox.path("sekisho.toml")).expect("a file");
    assert_eq!(before, after);
}

#[test]
fn an_embedded_store_gets_a_master_key_beside_it() {
    let sandbox = without_keys();
    sandbox.pair("a", &["a.example"], Key::P256);
    let import = ["cert", "import", "--chain", "a.crt", "--key", "a.key"];
    let first = sandbox.run(&import);
    assert_eq!(first.code, Some(0), "{}", first.err);
    let key = sandbox.path("data/master.key");
    let told = format!("created the master key {}; back it up", key.display());
    assert_eq!(first.err.matches(&told).count(), 1, "{}", first.err);
    let mode = fs::metadata(&key).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = sandbox.run(&import);
    assert_eq!((again.code, &*again.err), (Some(0), ""));
    let server = sandbox.serve();
    assert!(server.fetch("a.example").is_ok());
    server.stop();
}

#[test]
fn a_store_whose_master_key_is_gone_gets_no_new_one() {
    let sandbox = without_keys();
    sandbox.import(&["a.example"]);
    let key = sandbox.path("data/master.key");
    fs::remove_file(&key).expect("a file");
    for args in [&["serve"][..], &["check"], &["host", "set", "b.example"]] {
        let error = sandbox.fails(args);
        let wanted = format!("master key {}: it is missing; put back", key.display());
        assert!(error.contains(&wanted), "{error}");
    }
    assert!(!key.exists());
}
