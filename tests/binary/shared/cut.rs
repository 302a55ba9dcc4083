//! Tests a server that loses its database connections and catches up.

use sekisho_testkit::Cut;
use sekisho_testkit::services::PgBouncer;

use super::*;

#[test]
fn a_server_whose_connections_hung_catches_up() {
    let database = Postgres::shared();
    catches_up_after(Cut::Hang, &database.database(), database.port());
}

#[test]
fn a_server_whose_connections_were_reset_catches_up() {
    let database = Postgres::shared();
    catches_up_after(Cut::Reset, &database.database(), database.port());
}

#[test]
fn a_server_that_was_cut_off_from_pgbouncer_catches_up() {
    let database = Postgres::shared();
    let pooler = PgBouncer::shared();
    let url = pooler.through(database, &database.database());
    catches_up_after(Cut::Hang, &url, pooler.port());
}

/// Cuts the last of three servers off and lets it catch up. That one reaches
/// the database, or its pooler, through a proxy before this port.
fn catches_up_after(how: Cut, url: &str, port: u16) {
    let proxy = Proxy::before(port);
    let rig = Rig::proxied(url, &proxy);
    let [near, other, far] = &rig.machines;
    let kept = import(&near.sandbox, &["kept.example"]);
    let before = import(&near.sandbox, &["replaced.example"]);
    let gone = import(&near.sandbox, &["removed.example"]);
    rig.all_have_read_the_log(&near.sandbox);
    rig.all_show("kept.example", &kept);
    rig.all_show("replaced.example", &before);
    rig.all_show("removed.example", &gone);
    rig.none_knows("added.example");

    proxy.cut(how);
    until("the cut is noticed", HEALS, || {
        far.server.log().contains("the change feed is broken")
    });
    let added = import(&near.sandbox, &["added.example"]);
    let after = import(&other.sandbox, &["replaced.example"]);
    near.sandbox.ok(&["host", "remove", "removed.example"]);
    for machine in [near, other] {
        let is_right = |server: &Server| {
            shows(server, "added.example", &added)
                && shows(server, "replaced.example", &after)
                && is_unknown(server, "removed.example")
        };
        until("the others", ARRIVES, || is_right(&machine.server));
    }
    // The server still serves its cached hosts. It must not call an uncached
    // host unknown.
    for (host, pair) in [
        ("kept.example", &kept),
        ("replaced.example", &before),
        ("removed.example", &gone),
    ] {
        assert!(shows(&far.server, host, pair), "{host}");
    }
    let refused = far.server.refusal("unasked.example");
    assert!(refused.contains("InternalError"), "{refused}");

    proxy.open();
    until("a replaced host", HEALS, || {
        shows(&far.server, "replaced.example", &after)
    });
    // By now the server has applied earlier changes, and applies later ones
    // soon.
    rig.all_show("added.example", &added);
    rig.none_knows("removed.example");
    rig.all_show("kept.example", &kept);
    let log = far.server.log();
    assert!(log.contains("the change feed is back"), "{log}");
    assert!(
        !log.contains("reading everything again"),
        "by sequence: {log}"
    );
    // The change feed goes on afterwards.
    let again = import(&other.sandbox, &["kept.example"]);
    rig.all_show("kept.example", &again);
    rig.stop();
}
