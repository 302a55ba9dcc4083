//! Tests a full disk of the database.

use sekisho_testkit::services::Postgres;

use super::{metric, sandbox, states};
use crate::sandbox::{SOON, Sandbox, until};

/// The database reports a full disk within the transaction, after the
/// credentials and before the hosts. (The SQLite store has its own test beside
/// its code.)
#[test]
fn a_full_disk_refuses_writes_whole() {
    let server = Postgres::shared();
    let url = server.database();
    let sandbox = sandbox(&url, &["cached.example", "cold.example"]);
    let serving = sandbox.serve();
    assert!(serving.shows("cached.example", "cached.example"));
    let name = url
        .rsplit('/')
        .next()
        .and_then(|rest| rest.split('?').next());
    let sql = |text: &str| server.sql(name.expect("a name"), text);
    let content =
        || sql("SELECT (SELECT number FROM sekisho.meta), count(*) FROM sekisho.credentials");
    let before = content();
    sql(FULL);
    // Imports of a new host and of a replacement fail.
    for host in ["new.example", "cached.example"] {
        let error = refused(&sandbox, host);
        assert!(error.contains("No space left on device (53100)"), "{error}");
    }
    assert_eq!(content(), before, "something was written");
    assert!(serving.shows("cached.example", "cached.example"));
    assert!(serving.shows("cold.example", "cold.example"));
    assert!(serving.refusal("new.example").contains("UnrecognisedName"));
    assert_eq!(states(&serving), "available healthy");
    assert_eq!(metric(&serving, "sekisho_store_available"), 1.0);

    sql("DROP TRIGGER full_disk ON sekisho.hosts");
    sandbox.page("new.example", "new.example");
    sandbox.import(&["new.example"]);
    until("the new host", SOON, || {
        serving.shows("new.example", "new.example")
    });
    serving.stop();
}

fn refused(sandbox: &Sandbox, host: &str) -> String {
    sandbox.pair("full", &[host], sekisho_testkit::Key::P256);
    sandbox.fails(&["cert", "import", "--chain", "full.crt", "--key", "full.key"])
}

const FULL: &str = "
    CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file: No space left on device'
            USING ERRCODE = 'disk_full';
    END $$;
    CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON sekisho.hosts
        FOR EACH ROW EXECUTE FUNCTION full_disk()";
