//! Tests several servers and commands on one PostgreSQL.

use std::time::{Duration, Instant};

use sekisho_testkit::Key;
use sekisho_testkit::services::{PgBouncer, Postgres, Signal};

use crate::sandbox::{SOON, Sandbox, ca, until};

/// Makes a sandbox on this store.
pub(crate) fn sandbox(url: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    sandbox.write_private("sekisho.toml", &config.replace("sqlite:hosts.db", url));
    sandbox
}

pub(crate) fn name_of(url: &str) -> &str {
    let rest = url.rsplit('/').next().expect("a path");
    rest.split('?').next().expect("a name")
}

pub(crate) fn import(sandbox: &Sandbox, name: &str) {
    let pair = ca().issue(&[name], Key::P256);
    sandbox.write("a.crt", &pair.chain_pem());
    sandbox.write("a.key", &pair.key_pem());
    sandbox.ok(&["cert", "import", "--chain", "a.crt", "--key", "a.key"]);
}

/// Promised are 100 ms, which a busy machine does not keep: `make bench-stores` measures it.
#[test]
fn a_change_is_served_by_all_soon() {
    let server = Postgres::shared();
    let direct = server.database();
    let pooled = PgBouncer::shared().through(server, &server.database());
    for url in [direct, pooled] {
        let sandbox = sandbox(&url);
        sandbox.page("a.example", "page of a");
        import(&sandbox, "a.example");
        let servers = [sandbox.serve(), sandbox.serve()];
        for server in &servers {
            assert!(server.shows("a.example", "page of a"), "{}", server.log());
        }
        let mut waits = Vec::new();
        for round in 0..9 {
            let disabled = round % 2 == 0;
            let switch = format!("--disabled={disabled}");
            sandbox.ok(&["host", "set", "a.example", &switch]);
            let written = Instant::now();
            until("the change", SOON, || {
                let changed = |server: &crate::sandbox::Server| {
                    server.fetch("a.example").is_err() == disabled
                };
                servers.iter().all(changed)
            });
            waits.push(written.elapsed());
        }
        waits.sort();
        assert!(waits[4] <= Duration::from_secs(2), "{waits:?}");
        for server in servers {
            assert!(!server.log().contains("correct-horse"), "{}", server.log());
            server.stop();
        }
    }
}

#[test]
fn only_commands_that_write_make_a_store() {
    let url = Postgres::shared().database();
    let sandbox = sandbox(&url);
    for command in [&["serve"][..], &["check"], &["host", "list"]] {
        let error = sandbox.fails(command);
        assert!(
            error.contains("there is no store in this database"),
            "{error}"
        );
        assert!(!error.contains("correct-horse"), "{error}");
        assert!(!sandbox.path("master.key").exists());
    }
    let ran = sandbox.run(&["host", "set", "a.example"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.err
            .contains("created the store postgres://sekisho:***@"),
        "{}",
        ran.err
    );
    assert!(sandbox.ok(&["check"]).contains("postgres://sekisho:***@"));
    assert!(sandbox.ok(&["host", "list"]).contains("a.example"));
}

#[test]
fn a_server_starts_without_its_database_and_heals() {
    let database = Postgres::start();
    let sandbox = sandbox(&database.database());
    sandbox.page("a.example", "page of a");
    import(&sandbox, "a.example");
    database.signal(Signal::End);
    let check = sandbox.run(&["check"]);
    assert_eq!(check.code, Some(0), "what starts passes: {}", check.err);
    let reachable = sandbox.fails(&["check", "--reachable"]);
    for (error, begins) in [(&check.err, "warning: "), (&reachable, "error: ")] {
        assert!(error.starts_with(begins), "{error}");
        assert!(
            error.contains("refused") && !error.contains("correct-horse"),
            "{error}"
        );
    }
    assert!(!check.out.contains("is there"), "{}", check.out);
    let server = sandbox.serve();
    // A failed lookup must not look like an absent host.
    assert!(server.refusal("a.example").contains("InternalError"));
    database.begin();
    let heals = Duration::from_secs(20);
    until("it heals", heals, || server.shows("a.example", "page of a"));
    database.signal(Signal::Kill);
    // Cached hosts stay served.
    assert!(server.shows("a.example", "page of a"));
    assert!(server.refusal("b.example").contains("InternalError"));
    database.begin();
    until("it heals again", heals, || {
        server.refusal("b.example").contains("UnrecognisedName")
    });
    import(&sandbox, "b.example");
    until("a change", heals, || server.fetch("b.example").is_ok());
    assert!(!server.log().contains("correct-horse"), "{}", server.log());
    server.stop();
}

#[test]
fn a_wrong_master_key_is_told_at_the_start() {
    let url = Postgres::shared().database();
    import(&sandbox(&url), "a.example");
    let other = sandbox(&url);
    // The master key of another store.
    let elsewhere = Sandbox::new();
    elsewhere.import(&["b.example"]);
    std::fs::copy(elsewhere.path("master.key"), other.path("master.key")).expect("a copy");
    for command in ["serve", "check"] {
        let error = other.fails(&[command]);
        assert!(error.contains("wrong master key"), "{error}");
    }
}

#[test]
fn a_pooler_that_was_not_named_is_guessed() {
    let server = Postgres::shared();
    let direct = server.database();
    let first = sandbox(&direct);
    import(&first, "a.example");
    let pooled = PgBouncer::shared().through(server, &direct);
    let other = sandbox(&pooled.replace("&pgbouncer=1", ""));
    std::fs::copy(first.path("master.key"), other.path("master.key")).expect("a copy");
    // A pooled connection keeps the first command's prepared statement for the
    // next.
    let mut errors = (0..20).map(|_| other.run(&["host", "list"]).err);
    let error = errors.find(|error| !error.is_empty());
    let error = error.expect("a statement is there already");
    assert!(error.contains("add pgbouncer=1 to the URL"), "{error}");
}
