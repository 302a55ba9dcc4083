//! A server that is cut off from the database and comes back.

use sekisho_testkit::Cut;

use super::*;

#[test]
fn a_server_whose_connections_hung_catches_up() {
    catches_up_after(Cut::Hang);
}

#[test]
fn a_server_whose_connections_were_reset_catches_up() {
    catches_up_after(Cut::Reset);
}

fn catches_up_after(how: Cut) {
    let (rig, gate) = Rig::gated();
    let [near, other, far] = &rig.machines;
    let kept = import(&near.sandbox, &["kept.example"]);
    let before = import(&near.sandbox, &["replaced.example"]);
    let gone = import(&near.sandbox, &["removed.example"]);
    rig.all_show("kept.example", &kept);
    rig.all_show("replaced.example", &before);
    rig.all_show("removed.example", &gone);
    rig.none_knows("added.example");

    gate.cut(how);
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
        until("the others", SOON, || is_right(&machine.server));
    }
    // What it knows is served on; what it does not know it can't deny.
    for (host, pair) in [
        ("kept.example", &kept),
        ("replaced.example", &before),
        ("removed.example", &gone),
    ] {
        assert!(shows(&far.server, host, pair), "{host}");
    }
    let refused = far.server.refusal("unasked.example");
    assert!(refused.contains("InternalError"), "{refused}");

    gate.open();
    until("a replaced host", HEALS, || {
        shows(&far.server, "replaced.example", &after)
    });
    // By then it has applied what was written before, and soon what follows.
    rig.all_show("added.example", &added);
    rig.none_knows("removed.example");
    rig.all_show("kept.example", &kept);
    let log = far.server.log();
    assert!(log.contains("the change feed is back"), "{log}");
    assert!(
        !log.contains("reading everything again"),
        "by sequence: {log}"
    );
    // And it goes on.
    let again = import(&other.sandbox, &["kept.example"]);
    rig.all_show("kept.example", &again);
    rig.stop();
}
