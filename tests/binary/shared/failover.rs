//! A standby takes over from the database.

use sekisho_testkit::services::Signal;
use sekisho_testkit::{Cut, Gate};

use super::*;

/// The standby lacks the last writes: their numbers are given a second time,
/// and what they wrote is gone.
#[test]
fn servers_go_on_with_a_standby_that_was_promoted() {
    let primary = Postgres::start();
    let url = primary.database();
    let way = Gate::before(primary.port());
    let standby = primary.standby(way.port());
    let (first, second) = (primary.port(), standby.port());
    let both = url.replace(
        &format!(":{first}/"),
        &format!(":{first},127.0.0.1:{second}/"),
    );
    let both = format!("{both}&target_session_attrs=read-write");
    let rig = Rig {
        machines: prepared([&both, &both, &both]).map(Machine::start),
    };
    let [one, two, _] = &rig.machines;
    let kept = import(&one.sandbox, &["kept.example"]);
    let before = import(&one.sandbox, &["replaced.example"]);
    rig.all_show("kept.example", &kept);
    rig.all_show("replaced.example", &before);
    rig.none_knows("added.example");
    standby.catches_up_with(&primary);
    way.cut(Cut::Reset);
    let lost = import(&one.sandbox, &["lost.example"]);
    let late = import(&one.sandbox, &["replaced.example"]);
    rig.all_show("lost.example", &lost);
    rig.all_show("replaced.example", &late);

    primary.signal(Signal::Kill);
    for Machine { server, .. } in &rig.machines {
        assert!(shows(server, "kept.example", &kept), "from memory");
        // A standby is asked by nobody.
        assert!(server.refusal("unasked.example").contains("InternalError"));
    }
    standby.promote();
    until("a command writes", HEALS, || {
        two.sandbox.run(&["host", "set", "first.example"]).code == Some(0)
    });
    let added = import(&two.sandbox, &["added.example"]);
    for Machine { server, .. } in &rig.machines {
        until("a new host", HEALS, || {
            shows(server, "added.example", &added)
        });
    }
    rig.none_knows("lost.example");
    rig.all_show("replaced.example", &before);
    rig.all_show("kept.example", &kept);
    for Machine { server, .. } in &rig.machines {
        let log = server.log();
        assert!(log.contains("the change log does not continue"), "{log}");
    }
    rig.stop();
}
