//! Tests `sekisho init`, and the master key of an embedded store.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use rustix::process::geteuid;
use sekisho_testkit::Key;

use crate::sandbox::{Sandbox, Server, binary, needs};

const NOBODY: u32 = 65_534;

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
    let out = sandbox.ok(&["init", "made/here", "--state", "made/state"]);
    for command in ["cert import", "host set", "check", "serve"] {
        let line = out.lines().find(|line| line.contains(command));
        let line = line.unwrap_or_else(|| panic!("{command}: {out}"));
        assert!(line.contains("--config made/here/sekisho.toml"), "{line}");
    }
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
    // The store and its key are there: a server needs nothing else.
    sandbox.ok(&["check"]);
    let server = sandbox.serve();
    sandbox.import(&["a.example"]);
    assert!(server.fetch("a.example").is_ok());
    server.stop();

    // The commented settings can be used as well.
    let (before, acme) = config.split_once("# [acme]").expect("a comment");
    let acme = acme.replace("\n# ", "\n");
    let written = format!("{before}[acme]{acme}");
    sandbox.write("sekisho.toml", &written);
    sandbox.ok(&["host", "list"]);
    assert!(acme.contains("\ncas = ["), "{acme}");
    sandbox.ok(&[
        "init",
        "with",
        "--state",
        "made/state",
        "--acme",
        "you@example.com",
    ]);
    let with = fs::read_to_string(sandbox.path("with/sekisho.toml")).expect("a file");
    assert!(written.ends_with(with.split_once("[acme]").expect("a section").1));
    let error = sandbox.fails(&["init", "no", "--state", "made/state", "--acme", "you"]);
    assert!(
        error.contains("[acme] contact[0]: \"mailto:you\" is no mailto: URI"),
        "{error}"
    );
    assert!(!sandbox.path("no/sekisho.toml").exists());
}

#[test]
fn the_user_of_the_service_gets_the_store_and_its_key() {
    if !needs("root, to give files away", geteuid().is_root()) {
        return;
    }
    let sandbox = Sandbox::new();
    let out = sandbox.ok(&["init", "made", "--state", "a/state", "--user", "nobody"]);
    assert!(out.contains("sudo -u nobody sekisho host set"), "{out}");
    let owner = |name: &str| fs::metadata(sandbox.path(name)).expect("it is made").uid();
    for name in ["a/state", "a/state/hosts.db", "a/state/master.key"] {
        assert_eq!(owner(name), NOBODY, "{name}");
    }
    assert_eq!((owner("made/sekisho.toml"), owner("a")), (0, 0));
    let mode = |name: &str| {
        let metadata = fs::metadata(sandbox.path(name)).expect("it is made");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("a/state"), mode("a/state/master.key")),
        (0o700, 0o600)
    );

    let config = fs::read_to_string(sandbox.path("made/sekisho.toml")).expect("a file");
    let config = config
        .replace("0.0.0.0", "127.0.0.1")
        .replace(", \"[::]:443\"", "");
    let config = config
        .replace(", \"[::]:80\"", "")
        .replace(":443\"", ":0\"");
    let config = config.replace(":80\"", ":0\"").replace(":9443\"", ":0\"");
    sandbox.write("made/sekisho.toml", &config);
    fs::set_permissions(sandbox.root(), fs::Permissions::from_mode(0o755)).expect("ours");
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(binary())
        .args(["serve", "--log", "json", "--config", "made/sekisho.toml"])
        .current_dir(sandbox.root())
        .env_remove("SEKISHO_LOG");
    Server::start(command).stop();
}

/// As where an earlier run ended before the folder was given, or root made it.
#[test]
fn a_folder_of_another_user_is_refused_before_anything_is_made() {
    if !needs("root, to name another user", geteuid().is_root()) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("state")).expect("a folder");
    let init = ["init", "made", "--state", "state", "--user", "nobody"];
    let error = sandbox.fails(&init);
    assert!(
        error.contains("belongs to another user than nobody"),
        "{error}"
    );
    assert!(
        !sandbox.path("state/hosts.db").exists() && !sandbox.path("made/sekisho.toml").exists()
    );
    std::os::unix::fs::chown(sandbox.path("state"), Some(NOBODY), None).expect("root");
    sandbox.ok(&init);
    let owner = fs::metadata(sandbox.path("state/hosts.db")).expect("a file");
    assert_eq!(owner.uid(), NOBODY);
}

/// As where an operator forgets `sudo -u`.
#[test]
fn what_root_makes_in_a_folder_of_the_service_belongs_to_it() {
    if !needs("root, to give files away", geteuid().is_root()) {
        return;
    }
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("state")).expect("a folder");
    std::os::unix::fs::chown(sandbox.path("state"), Some(NOBODY), None).expect("root");
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config.replace("sqlite:", "sqlite:state/");
    sandbox.write("sekisho.toml", &config.replace("file:", "file:state/"));
    sandbox.ok(&["host", "set", "a.example", "--status", "404"]);
    for entry in fs::read_dir(sandbox.path("state")).expect("a folder") {
        let entry = entry.expect("an entry");
        let owner = entry.metadata().expect("it is there").uid();
        assert_eq!(owner, NOBODY, "{}", entry.path().display());
    }
    assert!(sandbox.path("state/master.key").exists());
    let checked = sandbox.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{}", checked.err);
    let hint = "'sudo -u nobody sekisho check' finds what nobody can't open";
    assert!(checked.err.contains(hint), "{}", checked.err);
}

#[test]
fn a_path_that_looks_like_a_place_of_the_template_stays() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["init", "made", "--state", "a@ROOT@KEY@b"]);
    assert!(sandbox.path("a@ROOT@KEY@b/hosts.db").exists());
    sandbox.ok(&["host", "list", "--config", "made/sekisho.toml"]);
}

#[test]
fn a_user_that_is_none_gets_nothing() {
    let sandbox = Sandbox::new();
    let error = sandbox.fails(&["init", "made", "--state", "state", "--user", "no-such-user"]);
    let expected = match geteuid().is_root() {
        true => "--user: there is no user no-such-user on this machine",
        false => "--user: only root can give files to another user",
    };
    assert!(error.contains(expected), "{error}");
    assert!(!sandbox.path("made").exists() && !sandbox.path("state").exists());
}

#[test]
fn a_store_that_is_there_is_kept() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["init", "first", "--state", "state"]);
    let key = fs::read(sandbox.path("state/master.key")).expect("a key");
    sandbox.ok(&["host", "set", "a.example", "--config", "first/sekisho.toml"]);
    sandbox.ok(&["init", "second", "--state", "state"]);
    let hosts = sandbox.ok(&["host", "list", "--config", "second/sekisho.toml"]);
    assert!(hosts.contains("a.example"), "{hosts}");
    let again = fs::read(sandbox.path("state/master.key")).expect("a key");
    assert_eq!(key, again);
}

/// A store on a disk that is not mounted must not become an empty one.
#[test]
fn a_server_makes_no_store() {
    let sandbox = Sandbox::new();
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("sekisho.toml", &config.replace("sqlite:", "sqlite:disk/"));
    fs::create_dir(sandbox.path("disk")).expect("a folder");
    for command in ["serve", "check"] {
        let error = sandbox.fails(&[command]);
        assert!(error.contains("disk/hosts.db"), "{error}");
    }
    assert!(!sandbox.path("disk/hosts.db").exists() && !sandbox.path("master.key").exists());
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
