//! Tests that no private key is in the clear in a store's files, a dump, a log
//! or a core.

mod logs;
pub(crate) mod search;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use sekisho_testkit::services::Postgres;
use sekisho_testkit::{Key, Pair};

use crate::postgres::{name_of, sandbox as on};
use crate::sandbox::{Ran, SOON, Sandbox, Server, binary, ca, until};
use search::Search;

const KEYS: [(&str, Key); 4] = [
    ("p256.example", Key::P256),
    ("p384.example", Key::P384),
    ("ed25519.example", Key::Ed25519),
    ("rsa.example", Key::Rsa2048),
];

/// Store with a key of each type, some of which were replaced.
struct Filled {
    /// Every pair that was ever stored.
    pairs: Vec<Pair>,
    server: Server,
}

/// Imports while a server runs, which also stores its ticket keys.
fn fill(sandbox: &Sandbox) -> Filled {
    let mut pairs: Vec<_> = KEYS.map(|(name, key)| import(sandbox, name, key)).into();
    let server = sandbox.serve();
    for (name, key) in [KEYS[0], KEYS[3]] {
        pairs.push(import(sandbox, name, key));
    }
    for (name, _) in KEYS {
        until(name, SOON, || server.fetch(name).is_ok());
    }
    Filled { pairs, server }
}

/// Imports a pair, and removes its files afterwards.
pub(crate) fn import(sandbox: &Sandbox, name: &str, key: Key) -> Pair {
    let pair = ca().issue(&[name], key);
    sandbox.write("a.crt", &pair.chain_pem());
    sandbox.write("a.key", &pair.key_pem());
    sandbox.ok(&["cert", "import", "--chain", "a.crt", "--key", "a.key"]);
    for file in ["a.crt", "a.key"] {
        fs::remove_file(sandbox.path(file)).expect("our file");
    }
    pair
}

/// The search finds a key in the clear in each form.
#[test]
fn the_search_itself_finds_keys() {
    for (name, key) in KEYS {
        let pair = ca().issue(&[name], key);
        let search = Search::of([&pair]);
        let der = pair.key_der();
        let der = der.secret_der();
        let hex = |byte: &u8| format!("{byte:02x}");
        let digits: String = der.iter().map(hex).collect();
        let pem = pair.key_pem();
        let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let in_json = der.escape_ascii().to_string().replace('\\', "\\\\");
        let shifted = search::base64(&[b"x", der].concat());
        for (form, text) in [
            ("DER", der),
            ("hex", digits.as_bytes()),
            ("HEX", digits.to_uppercase().as_bytes()),
            ("PEM", pem.as_bytes()),
            ("base64", body.as_bytes()),
            ("base64, shifted", shifted.as_bytes()),
            ("numbers", format!("{der:?}").as_bytes()),
            ("a text's bytes", der.escape_ascii().to_string().as_bytes()),
            ("the same in JSON", in_json.as_bytes()),
        ] {
            let text = [&[7; 1000], text, &[7; 1000]].concat();
            assert!(search.hit(&text).is_some(), "{name} as {form}");
        }
        let chain: Vec<u8> = pair.chain.iter().flat_map(|der| der.to_vec()).collect();
        assert_eq!(search.hit(&chain), None, "{name}: public");
        assert_eq!(search.hit(pair.chain_pem().as_bytes()), None);
    }
}

#[test]
fn the_files_of_sqlite_hold_no_private_key() {
    let sandbox = Sandbox::new();
    let filled = fill(&sandbox);
    let search = Search::of(&filled.pairs);
    assert!(sandbox.path("hosts.db-wal").exists());
    // First with a write-ahead log, then with all pages in the file.
    search.through(sandbox.root());
    filled.server.stop();
    search.through(sandbox.root());
    let stored = [&filled.pairs[5].chain[0][..]];
    assert!(Search::for_bytes(stored).hit_below(&sandbox.path("hosts.db")));
}

#[test]
fn dumps_and_files_of_postgresql_hold_no_private_key() {
    let database = Postgres::start();
    let url = database.database();
    let sandbox = on(&url);
    let filled = fill(&sandbox);
    let search = Search::of(&filled.pairs);
    let stored = Search::for_bytes([&filled.pairs[5].chain[0][..]]);

    let dump = database.dump(name_of(&url));
    search.text("pg_dump", dump.as_bytes());
    assert!(stored.hit(dump.as_bytes()).is_some(), "the certificate");
    let archive = sandbox.path("store.dump");
    database.archive(name_of(&url), &archive);
    search.through(&archive);
    let text = database.unpacked(&archive);
    search.text("pg_restore", text.as_bytes());
    assert!(stored.hit(text.as_bytes()).is_some(), "the certificate");
    // Table files, and the write-ahead log, which a standby receives.
    let data = database.data();
    search.through(&data);
    assert!(stored.hit_below(&data.join("base")), "the certificate");
    assert!(stored.hit_below(&data.join("pg_wal")), "the certificate");
    search.through(sandbox.root());
    filled.server.stop();
}

#[test]
fn a_crash_leaves_no_core() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let mut command = Command::new("sh");
    // The limit is raised as far as the machine allows.
    let serve = "ulimit -S -c \"$(ulimit -H -c)\" && exec \"$0\" serve --log json";
    command
        .args(["-c", serve])
        .arg(binary())
        .current_dir(sandbox.root());
    let mut server = Server::start(command);
    assert!(server.fetch("a.example").is_ok());
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid()));
    let limits = limits.expect("it runs");
    let core = limits.lines().find(|line| line.starts_with("Max core"));
    let words: Vec<_> = core.expect("a limit").split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "soft and hard: {core:?}");
    // Files of a process that is closed to debuggers belong to root, whichever
    // user runs it.
    let environment = fs::metadata(format!("/proc/{}/environ", server.pid()));
    assert_eq!(environment.expect("it runs").uid(), 0);
    server.signal(Signal::ABORT);
    let status = server.ended();
    assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{status}");
    assert!(!status.core_dumped(), "{status}");
    let files = fs::read_dir(sandbox.root()).expect("our folder").flatten();
    let is_core = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("core"))
    };
    assert_eq!(files.filter(|file| is_core(&file.path())).count(), 0);
}

#[test]
fn a_command_for_the_key_inherits_no_secret() {
    let sandbox = Sandbox::new();
    sandbox.configure("");
    sandbox.import(&["a.example"]);
    let text = fs::read_to_string(sandbox.path("sekisho.toml")).expect("ours");
    let command = "command:env >>seen.txt; cat master.key";
    let text = text
        .replace("file:master.key", command)
        .replace("[store]", "admin_token = \"env:ADMIN_TOKEN\"\n[store]");
    sandbox.write("sekisho.toml", &text);
    // The source of the copy has its master key in a variable.
    let ring = fs::read_to_string(sandbox.path("master.key")).expect("ours");
    sandbox.write("to.toml", &text.replace("hosts.db", "to.db"));
    sandbox.write("from.toml", &text.replace(command, "env:MASTER"));
    for args in [&["check"][..], &["store", "copy", "from.toml", "to.toml"]] {
        let mut command = sandbox.command(args);
        command
            .env("ADMIN_TOKEN", "0123456789abcdef")
            .env("HARMLESS", "inherited");
        if args[0] == "store" {
            command.env("MASTER", ring.trim());
        }
        let ran = Ran::of(&command.output().expect("the binary runs"));
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
    }
    let seen = fs::read_to_string(sandbox.path("seen.txt")).expect("the command ran");
    let names = |name: &str| seen.lines().filter(|line| line.starts_with(name)).count();
    assert_eq!(names("HARMLESS="), 2, "one for each command");
    assert_eq!((names("ADMIN_TOKEN="), names("MASTER=")), (0, 0));
}
