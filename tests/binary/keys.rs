//! Tests master keys: they are added, rotated while servers serve, listed and
//! removed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use sekisho_testkit::services::Postgres;
use sekisho_testkit::{Key, client};
use tokio::runtime::Builder;

use crate::sandbox::{Ran, SOON, Sandbox, Server, ca, until};

const HOSTS: usize = 2000;
/// Far more than any step takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn a_rotation_is_not_noticed_by_clients_and_goes_on_after_a_kill() {
    let sandbox = Sandbox::new();
    // The memory cache holds all hosts: a later load is not due to an eviction.
    sandbox.configure("[cache]\nmemory = \"512MiB\"\n");
    import_many(&sandbox);
    let server = sandbox.serve();
    shake_all(&server);
    // Hosts loaded before the server followed the change log are loaded again.
    shake_all(&server);
    let loads = loads(&server);
    assert!(loads >= HOSTS as f64, "{loads}");
    let old = ids(&sandbox).0;
    let added = sandbox.ok(&["key", "new"]);
    assert!(added.contains("key rotate"), "{added}");
    let (failed, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                failed.fetch_add(shake(&server, HOSTS), Ordering::SeqCst);
            }
        });
        kill_in_the_middle(&sandbox, &old);
        let rotated = sandbox.ok(&["key", "rotate"]);
        assert!(rotated.contains("2,000 credentials"), "{rotated}");
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(failed.into_inner(), 0, "{}", server.log());
    shake_all(&server);
    assert_eq!(
        self::loads(&server),
        loads,
        "no entry of the cache was lost"
    );
    let left = under(&sandbox);
    assert_eq!(left[&old], (0, 0), "{left:?}");
    assert!(
        sandbox
            .ok(&["key", "list"])
            .contains(&format!("key remove {old}"))
    );
    // The running server has read the new key by now, and opens new records.
    sandbox.import(&["new.example"]);
    until("the new host", SOON, || server.fetch("new.example").is_ok());
    server.stop();
    sandbox.ok(&["key", "remove", &old]);
    let server = sandbox.serve();
    assert!(server.fetch("h7.example").is_ok());
    assert!(
        !fs::read_to_string(sandbox.path("master.key"))
            .expect("a file")
            .contains(&old)
    );
}

/// Starts a rotation and kills it when some secrets, but not all, are sealed
/// again. A rotation that finished first is undone and repeated.
fn kill_in_the_middle(sandbox: &Sandbox, old: &str) {
    for _ in 0..20 {
        let left = kill_once(sandbox, old);
        assert!(left < HOSTS, "{left} are left");
        if left > 0 {
            return;
        }
        sandbox.ok(&["key", "rotate", "--to", old]);
    }
    panic!("each rotation was done before it was killed");
}

/// Kills one rotation; returns how many credentials it left under the old key.
fn kill_once(sandbox: &Sandbox, old: &str) -> usize {
    let mut child = sandbox
        .command(&["key", "rotate"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let old = i64::from_str_radix(old, 16).expect("an id");
    let file = Connection::open(sandbox.path("hosts.db")).expect("a database");
    let left = || -> usize {
        let sql = "SELECT count(*) FROM credentials WHERE key_id = ?1";
        let count: i64 = file.query_row(sql, [old], |row| row.get(0)).expect(sql);
        usize::try_from(count).expect("a count")
    };
    until("some are sealed again", LONG, || left() < HOSTS);
    child.kill().expect("it is a child");
    child.wait().expect("it is a child");
    left()
}

#[test]
fn a_server_without_the_new_key_serves_what_it_can_and_says_so() {
    let url = Postgres::shared().database();
    let (rich, poor) = (sandbox(&url), sandbox(&url));
    rich.import(&["a.example"]);
    fs::copy(rich.path("master.key"), poor.path("master.key")).expect("a copy");
    let servers = [rich.serve(), poor.serve()];
    for server in &servers {
        until("ticket keys", SOON, || server.fetch("a.example").is_ok());
    }
    rich.ok(&["key", "new"]);
    rich.ok(&["key", "rotate"]);
    let new = seals(&rich);
    rich.import(&["b.example"]);
    let [first, second] = &servers;
    until("the new host", SOON, || first.fetch("b.example").is_ok());
    // The lookup fails, and must not look like an absent host. Cached hosts
    // stay served.
    until("it fails", LONG, || {
        second.refusal("b.example").contains("InternalError")
    });
    assert!(second.fetch("a.example").is_ok());
    until("it says which key", LONG, || {
        let log = second.log();
        log.contains(&format!(
            "seals under the master key {new}, which is not in file:"
        ))
    });
    let error = poor.fails(&["key", "list"]);
    assert!(error.contains(&new), "{error}");
    let ran = poor.run(&["key", "list"]);
    assert!(
        ran.out
            .contains(&format!("{new}  MISSING, it seals: 2 credentials")),
        "{}",
        ran.out
    );
    let error = poor.fails(&["check"]);
    assert!(error.contains("wrong master key"), "{error}");
    fs::copy(rich.path("master.key"), poor.path("master.key")).expect("a copy");
    until("it reads the file again", LONG, || {
        second.fetch("b.example").is_ok()
    });
    poor.ok(&["key", "list"]);
    for server in servers {
        server.stop();
    }
}

#[test]
fn keys_are_listed_added_and_removed() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let (first, _) = ids(&sandbox);
    sandbox.ok(&["key", "new"]);
    sandbox.ok(&["key", "new"]);
    let file = sandbox.path("master.key");
    let mode = fs::metadata(&file).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let listed = sandbox.json(&["key", "list", "--json"]);
    let keys: Vec<_> = listed.as_array().expect("an array").iter().collect();
    assert_eq!(keys.len(), 3);
    let id = |at: usize| keys[at]["id"].as_str().expect("an id").to_owned();
    assert_eq!((id(0), &keys[0]["seals"]), (first.clone(), &true.into()));
    assert_eq!(keys[1]["seals"], false);
    let error = sandbox.fails(&["key", "remove", &first]);
    assert!(error.contains("is the one that seals"), "{error}");
    sandbox.ok(&["key", "rotate", "--to", &id(1)]);
    assert_eq!(seals(&sandbox), id(1));
    sandbox.ok(&["key", "remove", &id(2)]);
    sandbox.ok(&["key", "remove", &first]);
    let error = sandbox.fails(&["key", "rotate", "--to", &first]);
    assert!(error.contains(&first), "{error}");
    let again = sandbox.ok(&["key", "rotate"]);
    assert!(again.contains("sealed 0 again"), "{again}");
    sandbox.ok(&["cert", "export", "a.example", "--with-key"]);
    for wrong in ["12", "sekisho-master-key-1:0123", "1234567g"] {
        let ran = sandbox.run(&["key", "remove", wrong]);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
    }
}

#[test]
fn a_source_that_is_no_file_is_printed_only_when_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let (first, _) = ids(&sandbox);
    let ran = sandbox.run(&["key", "new", "--print"]);
    assert_eq!(ran.code, Some(2), "a file is written: {}", ran.err);
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let text = fs::read_to_string(sandbox.path("master.key")).expect("a file");
    sandbox.write(
        "sekisho.toml",
        &config.replace("file:master.key", "env:THE_KEY"),
    );
    let with = |text: &str, args: &[&str]| {
        let mut command = sandbox.command(args);
        Ran::of(
            &command
                .env("THE_KEY", text)
                .output()
                .expect("the binary runs"),
        )
    };
    let ran = with(&text, &["key", "new"]);
    assert!(
        ran.code == Some(2) && ran.err.contains("--print"),
        "{}",
        ran.err
    );
    assert!(!ran.err.contains("sekisho-master-key"), "{}", ran.err);
    let printed = with(&text, &["key", "new", "--print"]);
    assert_eq!(printed.code, Some(0), "{}", printed.err);
    assert!(printed.out.starts_with(&text) && printed.out.len() > text.len());
    assert!(
        !printed.err.contains("sekisho-master-key"),
        "{}",
        printed.err
    );
    let rotated = with(&printed.out, &["key", "rotate"]);
    assert!(
        rotated.out.contains(&format!("in place of {first}")),
        "{}{}",
        rotated.out,
        rotated.err
    );
    let error = with(&text, &["check"]).err;
    assert!(error.contains("wrong master key"), "{error}");
    let ran = with(&printed.out, &["key", "remove", &first]);
    assert!(
        ran.code == Some(1) && ran.err.contains("by hand"),
        "{}",
        ran.err
    );
}

fn sandbox(url: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("sekisho.toml", &config.replace("sqlite:hosts.db", url));
    sandbox
}

/// Imports hosts, each with its own certificate.
fn import_many(sandbox: &Sandbox) {
    for number in 0..HOSTS {
        let name = format!("h{number}.example");
        sandbox.pair(&format!("pairs/{name}"), &[&name], Key::P256);
    }
    sandbox.ok(&["cert", "import", "--dir", "pairs"]);
}

fn shake_all(server: &Server) {
    assert_eq!(shake(server, HOSTS), 0, "{}", server.log());
}

/// Makes a handshake with each host, eight at a time; returns how many failed.
fn shake(server: &Server, hosts: usize) -> u64 {
    let runtime = Builder::new_current_thread().enable_all().build();
    let (address, config) = (server.https, client::config(ca()));
    runtime.expect("a runtime").block_on(async {
        let mut failed = 0;
        for first in (0..hosts).step_by(8) {
            let some = (first..hosts.min(first + 8)).map(|number| {
                let config = config.clone();
                tokio::spawn(async move {
                    let name = format!("h{number}.example");
                    client::connect(address, &name, config).await.is_err()
                })
            });
            for one in some.collect::<Vec<_>>() {
                failed += u64::from(one.await.expect("no panic"));
            }
        }
        failed
    })
}

/// Returns how often the server loaded a host that exists.
fn loads(server: &Server) -> f64 {
    let loads = server.metric("sekisho_loads_total{outcome=\"found\"}");
    loads.expect("it is counted")
}

/// Returns the first key, and the number of keys.
fn ids(sandbox: &Sandbox) -> (String, usize) {
    let listed = sandbox.json(&["key", "list", "--json"]);
    let keys = listed.as_array().expect("an array");
    (
        keys[0]["id"].as_str().expect("an id").to_owned(),
        keys.len(),
    )
}

fn seals(sandbox: &Sandbox) -> String {
    let listed = sandbox.json(&["key", "list", "--json"]);
    let mut keys = listed.as_array().expect("an array").iter();
    let seals = keys.find(|key| key["seals"] == true).expect("one seals");
    seals["id"].as_str().expect("an id").to_owned()
}

/// Returns the counts of credentials and documents by key.
fn under(sandbox: &Sandbox) -> BTreeMap<String, (u64, u64)> {
    let listed = sandbox.json(&["key", "list", "--json"]);
    let keys = listed.as_array().expect("an array").iter();
    keys.map(|key| {
        let count = |name: &str| key[name].as_u64().expect("a count");
        let id = key["id"].as_str().expect("an id").to_owned();
        (id, (count("credentials"), count("documents")))
    })
    .collect()
}
