//! Tests `store copy` and `store backup`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};
use sekisho_testkit::Key;
use sekisho_testkit::services::Postgres;

use crate::sandbox::{SOON, Sandbox, ca, until};

/// Far more than any step takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

#[test]
fn to_postgres_and_back_everything_is_equal() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 30);
    // A credential of two hosts, another key type, a wildcard, a site, and
    // documents.
    sandbox.import(&["x.example", "*.y.example"]);
    sandbox.import_type(&["x.example"], Key::Rsa2048);
    sandbox.ok(&[
        "host",
        "set",
        "h1.example",
        "--tenant",
        "anna",
        "--disabled",
    ]);
    sandbox.ok(&[
        "host",
        "set",
        "bare.example",
        "--redirect",
        "https://x.example",
    ]);
    sandbox.write("clients.pem", &ca().root_pem());
    sandbox.ok(&["host", "set", "h2.example", "--client-ca", "clients.pem"]);
    let server = sandbox.serve();
    until("ticket keys", SOON, || server.fetch("x.example").is_ok());
    let url = Postgres::shared().database();
    let there = sandbox.ok(&["store", "copy", "sqlite:hosts.db", &url]);
    assert!(
        there.contains("33 hosts, 32 credentials, 1 documents"),
        "{there}"
    );
    assert!(!there.contains("correct-horse"), "{there}");
    let back = sandbox.ok(&["store", "copy", &url, "sqlite:back.db"]);
    let all = [digests(&there), digests(&back)].concat();
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    // The copy has the same records under the same ids.
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("back.toml", &config.replace("hosts.db", "back.db"));
    for list in [["host", "list"], ["cert", "list"]] {
        let copy = sandbox.ok(&[&list[..], &["--json", "--config", "back.toml"]].concat());
        let listed = sandbox.ok(&[&list[..], &["--json"]].concat());
        assert_eq!(without_versions(&copy), without_versions(&listed));
    }
    // A second copy to the same target, named by its configuration, changes
    // nothing.
    let again = sandbox.ok(&["store", "copy", &url, "back.toml"]);
    assert!(again.contains("both are equal"), "{again}");
}

#[test]
fn a_copy_that_was_killed_goes_on_and_follows_its_source() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 1500);
    let args = ["store", "copy", "sqlite:hosts.db", "sqlite:copy.db"];
    let killed = (0..20).any(|_| {
        let copied = copied_when_killed(&sandbox, &args);
        if copied == 1500 {
            // The copy finished before the kill: start over.
            for file in ["copy.db", "copy.db-wal", "copy.db-shm"] {
                let _ = fs::remove_file(sandbox.path(file));
            }
        }
        copied < 1500
    });
    assert!(killed, "each was done before it was killed");
    sandbox.ok(&["host", "remove", "h3.example"]);
    sandbox.ok(&["host", "set", "h1499.example", "--tenant", "anna"]);
    sandbox.import(&["h5.example"]);
    sandbox.import(&["new.example"]);
    let went_on = sandbox.ok(&args);
    assert!(
        went_on.contains("1,500 hosts, 1,500 credentials"),
        "{went_on}"
    );
    let [from, to] = &digests(&went_on)[..] else {
        panic!("{went_on}")
    };
    assert_eq!(from, to);
    // A further run catches up before servers move.
    sandbox.ok(&["host", "remove", "h4.example"]);
    let caught_up = sandbox.ok(&args);
    assert!(
        caught_up.contains("1,499 hosts, 1,499 credentials"),
        "{caught_up}"
    );
}

/// Starts a copy and kills it after its first credentials; returns how many
/// hosts it copied.
fn copied_when_killed(sandbox: &Sandbox, args: &[&str]) -> i64 {
    let mut child = sandbox.command(args);
    let child = child.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().expect("the binary runs");
    until("some are copied", LONG, || {
        count(sandbox, "credentials") > 0
    });
    child.kill().expect("it is a child");
    child.wait().expect("it is a child");
    count(sandbox, "hosts")
}

#[test]
fn a_source_that_is_written_all_the_while_is_copied() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 300);
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("copy.toml", &config.replace("hosts.db", "copy.db"));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::SeqCst) {
                number += 1;
                // Replaces, changes and removes hosts all over the list.
                let name = format!("h{}.example", number * 7 % 300);
                sandbox.import(&[&name]);
                sandbox.ok(&["host", "set", &name, "--tenant", &format!("t{number}")]);
                sandbox.ok(&["host", "remove", &format!("h{}.example", number % 300)]);
            }
        });
        for _ in 0..3 {
            let said = sandbox.ok(&["store", "copy", "sekisho.toml", "copy.toml"]);
            assert!(said.contains("both are equal"), "{said}");
        }
        done.store(true, Ordering::SeqCst);
    });
    let said = sandbox.ok(&["store", "copy", "sekisho.toml", "copy.toml"]);
    assert_eq!(digests(&said)[0], digests(&said)[1]);
    for list in [["host", "list"], ["cert", "list"]] {
        let copy = sandbox.ok(&[&list[..], &["--json", "--config", "copy.toml"]].concat());
        let listed = sandbox.ok(&[&list[..], &["--json"]].concat());
        assert_eq!(without_versions(&copy), without_versions(&listed));
    }
}

#[test]
fn a_store_that_is_no_copy_is_not_overwritten() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let copy = |to: &str| ["store", "copy", "sqlite:hosts.db", to].map(str::to_owned);
    let fails = |to: &str| {
        let args = copy(to);
        sandbox.fails(&args.each_ref().map(String::as_str))
    };
    assert!(fails("sqlite:hosts.db").contains("the same store"));
    sandbox.ok(&["store", "copy", "sqlite:hosts.db", "sqlite:copy.db"]);
    // Another program writes the copy.
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write("copy.toml", &config.replace("hosts.db", "copy.db"));
    sandbox.ok(&["host", "set", "b.example", "--config", "copy.toml"]);
    assert!(fails("sqlite:copy.db").contains("was written since"));
    sandbox.write("other.toml", &config.replace("hosts.db", "other.db"));
    sandbox.ok(&["host", "set", "b.example", "--config", "other.toml"]);
    assert!(fails("sqlite:other.db").contains("holds something already"));
    assert!(
        sandbox
            .ok(&["host", "list", "--config", "other.toml"])
            .contains("b.example")
    );
    assert!(fails("files:/nowhere/{host}").contains("written by others"));
    for wrong in ["nonsense", "ftp://a"] {
        let ran = sandbox.run(&["store", "copy", "sqlite:hosts.db", wrong]);
        assert_eq!(ran.code, Some(2), "{}", ran.err);
    }
    let missing = sandbox.fails(&["store", "copy", "sqlite:none.db", "sqlite:new.db"]);
    assert!(missing.contains("none.db is missing"), "{missing}");
    assert!(!sandbox.path("new.db").exists());
}

#[test]
fn a_backup_is_taken_under_writes_restored_and_served() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 200);
    let server = sandbox.serve();
    assert!(server.fetch("h1.example").is_ok());
    let done = AtomicBool::new(false);
    let said = thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::SeqCst) {
                number += 1;
                let tenant = format!("t{number}");
                sandbox.ok(&["host", "set", "h0.example", "--tenant", &tenant]);
            }
        });
        let said = sandbox.ok(&["store", "backup", "backup.db"]);
        let error = sandbox.fails(&["store", "backup", "backup.db"]);
        assert!(error.contains("--force"), "{error}");
        done.store(true, Ordering::SeqCst);
        said
    });
    assert!(
        said.contains("the master key, file:") && said.contains("is not in it"),
        "{said}"
    );
    let mode = fs::metadata(sandbox.path("backup.db"))
        .expect("a file")
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    assert!(!sandbox.path("backup.db.part").exists());
    sandbox.import(&["late.example"]);
    until("a late host", SOON, || server.fetch("late.example").is_ok());
    fs::rename(sandbox.path("backup.db"), sandbox.path("hosts.db")).expect("a file");
    until("the restored file", LONG, || {
        server.fetch("late.example").is_err()
    });
    assert!(server.refusal("late.example").contains("UnrecognisedName"));
    assert!(server.fetch("h199.example").is_ok());
    sandbox.import(&["later.example"]);
    until("a change behind it", SOON, || {
        server.fetch("later.example").is_ok()
    });
    sandbox.ok(&["store", "backup", "again.db"]);
    sandbox.ok(&["store", "backup", "--force", "again.db"]);
    let error = sandbox.fails(&["store", "backup", "--force", "hosts.db"]);
    assert!(error.contains("is the store itself"), "{error}");
    server.stop();
}

#[test]
fn a_backup_under_a_wrong_master_key_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let elsewhere = Sandbox::new();
    elsewhere.import(&["b.example"]);
    fs::copy(elsewhere.path("master.key"), sandbox.path("master.key")).expect("a copy");
    let error = sandbox.fails(&["store", "backup", "backup.db"]);
    assert!(error.contains("wrong master key"), "{error}");
    assert!(!sandbox.path("backup.db").exists());
    assert!(!sandbox.path("backup.db.part").exists());
}

#[test]
fn a_backup_of_postgres_is_a_store_that_is_copied_back() {
    let server = Postgres::shared();
    let sandbox = Sandbox::new();
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write(
        "sekisho.toml",
        &config.replace("sqlite:hosts.db", &server.database()),
    );
    fill(&sandbox, 20);
    let said = sandbox.ok(&["store", "backup", "backup.db"]);
    assert!(said.contains("20 hosts, 20 credentials"), "{said}");
    assert!(
        said.contains("store copy sqlite:") && !said.contains("correct-horse"),
        "{said}"
    );
    let other = server.database();
    let restored = sandbox.ok(&["store", "copy", "sqlite:backup.db", &other]);
    assert_eq!(digests(&said)[0], digests(&restored)[0]);
    assert_eq!(digests(&restored)[0], digests(&restored)[1]);
}

/// Imports hosts, each with its own certificate.
fn fill(sandbox: &Sandbox, hosts: usize) {
    for number in 0..hosts {
        let name = format!("h{number}.example");
        sandbox.pair(&format!("pairs/{name}"), &[&name], Key::P256);
    }
    sandbox.ok(&["cert", "import", "--dir", "pairs"]);
}

/// Returns the digests of both stores.
fn digests(said: &str) -> Vec<String> {
    let digests = said.lines().filter_map(|line| line.split_once("sha256 "));
    digests.map(|(_, digest)| digest.to_owned()).collect()
}

fn without_versions(json: &str) -> Vec<serde_json::Value> {
    let listed: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let mut listed = listed.as_array().expect("an array").clone();
    for one in &mut listed {
        one.as_object_mut().expect("an object").remove("version");
    }
    listed
}

/// Returns the number of rows in a table of the copy; 0 while the copy is
/// missing.
fn count(sandbox: &Sandbox, table: &str) -> i64 {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let Ok(file) = Connection::open_with_flags(sandbox.path("copy.db"), flags) else {
        return 0;
    };
    let count = format!("SELECT count(*) FROM {table}");
    file.query_row(&count, (), |row| row.get(0)).unwrap_or(0)
}
