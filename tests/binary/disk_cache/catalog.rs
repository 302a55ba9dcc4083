//! Tests the disk cache over PostgreSQL.

use std::fs;

use sekisho_testkit::services::{Postgres, Signal};

use super::{Host, LONG, assert_sealed, kept, kill};
use crate::curl_openssl::openssl;
use crate::sandbox::{Sandbox, Server, until};

fn on(database: &Postgres) -> Sandbox {
    let sandbox = Sandbox::new();
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let url = database.database();
    sandbox.write("sekisho.toml", &config.replace("sqlite:hosts.db", &url));
    sandbox
}

fn import(sandbox: &Sandbox, hosts: &[Host]) {
    for host in hosts {
        let name = &host.name;
        sandbox.write(&format!("certs/{name}.crt"), &host.pair.chain_pem());
        sandbox.write(&format!("certs/{name}.key"), &host.pair.key_pem());
    }
    sandbox.ok(&["cert", "import", "--dir", "certs"]);
    fs::remove_dir_all(sandbox.path("certs")).expect("a folder");
}

fn hosts() -> Vec<Host> {
    let names = (0..20).map(|number| format!("h{number}.example"));
    names.map(|name| Host::new(&name)).collect()
}

/// Serves all hosts until they are in the disk cache. The first contact with
/// the log drops earlier copies.
fn warmed(sandbox: &Sandbox, hosts: &[Host]) -> Server {
    let server = sandbox.serve();
    let copies = f64::from(u32::try_from(hosts.len()).expect("a few"));
    until("the copies", LONG, || {
        for host in hosts {
            assert!(host.is_served(&server), "{}: {}", host.name, server.log());
        }
        server.metric("sekisho_disk_cache_copies") == Some(copies)
            && server.metric("sekisho_disk_cache_start_state") == Some(1.0)
    });
    server
}

#[test]
fn a_server_starts_without_its_database_from_the_disk_cache() {
    let database = Postgres::start();
    let sandbox = on(&database);
    let mut hosts = hosts();
    import(&sandbox, &hosts);
    let server = warmed(&sandbox, &hosts);
    let session = sandbox.path("session.pem");
    let session = session.to_str().expect("UTF-8");
    let named = ["-servername", "h1.example"];
    let first = openssl(
        server.https,
        &[&named[..], &["-sess_out", session]].concat(),
    );
    assert!(first.out.contains("New, TLSv1"), "{}", first.out);
    kill(server);
    database.signal(Signal::End);
    assert_sealed(&sandbox, &hosts);

    let server = sandbox.serve();
    let again = openssl(server.https, &[&named[..], &["-sess_in", session]].concat());
    assert!(again.out.contains("Reused, TLSv1"), "{}", again.out);
    for host in &hosts {
        assert!(host.is_served(&server), "{}: {}", host.name, server.log());
    }
    // A failed lookup must not look like an absent host.
    assert!(server.refusal("unknown.example").contains("InternalError"));
    assert!(server.metric("sekisho_disk_cache_answers_total") >= Some(20.0));
    assert!(server.log().contains("\"copies\":20"), "{}", server.log());

    database.begin();
    let replaced = Host::new("h1.example");
    import(&sandbox, std::slice::from_ref(&replaced));
    sandbox.ok(&["host", "remove", "h0.example"]);
    until("the removed host is refused", LONG, || {
        let refused = server.fetch("h0.example").err();
        refused.is_some_and(|error| error.to_string().contains("UnrecognisedName"))
    });
    until("the new certificate", LONG, || replaced.is_served(&server));
    kept(&server, 19);
    hosts[1] = replaced;
    for host in &hosts[2..] {
        assert!(host.is_served(&server), "{}: {}", host.name, server.log());
    }
    kill(server);
    database.signal(Signal::Kill);

    let server = sandbox.serve();
    assert!(server.refusal("h0.example").contains("InternalError"));
    for host in &hosts[1..] {
        assert!(host.is_served(&server), "{}: {}", host.name, server.log());
    }
    assert_sealed(&sandbox, &hosts);
    server.stop();
}

#[test]
fn a_change_during_downtime_invalidates_the_disk_cache() {
    let database = Postgres::start();
    let sandbox = on(&database);
    let hosts = hosts();
    import(&sandbox, &hosts);
    kill(warmed(&sandbox, &hosts));
    sandbox.ok(&["host", "remove", "h0.example"]);
    let replaced = Host::new("h1.example");
    import(&sandbox, std::slice::from_ref(&replaced));
    // A single contact with the log suffices, without any request for a host.
    let server = sandbox.serve();
    kept(&server, 18);
    kill(server);
    database.signal(Signal::Kill);

    let server = sandbox.serve();
    for name in ["h0.example", "h1.example"] {
        assert!(server.refusal(name).contains("InternalError"), "{name}");
    }
    for host in &hosts[2..] {
        assert!(host.is_served(&server), "{}: {}", host.name, server.log());
    }
    server.stop();
}
