//! Tests the failover to a standby of the database.

use sekisho_testkit::services::Signal;
use sekisho_testkit::{Cut, Proxy};

use super::*;

/// The standby lacks the last writes. It gives their change numbers to other
/// writes before any server reads the log, and their contents are lost.
#[test]
fn servers_go_on_with_a_standby_that_was_promoted() {
    let primary = Postgres::start();
    let url = primary.database();
    let to_standby = Proxy::before(primary.port());
    let standby = primary.standby(to_standby.port());
    let to_servers = Proxy::before(standby.port());
    let either = |second: u16| {
        let (one, two) = (format!(":{}/", primary.port()), format!(":{second}/"));
        let first = one.trim_end_matches('/');
        let both = url.replace(&one, &format!("{first},127.0.0.1{two}"));
        format!("{both}&target_session_attrs=read-write")
    };
    let (far, near) = (either(to_servers.port()), either(standby.port()));
    let [one, two, three, desk] = prepared([&far, &far, &far, &near]);
    let rig = Rig {
        machines: [one, two, three].map(Machine::start),
    };
    let kept = import(&desk, &["kept.example"]);
    let before = import(&desk, &["replaced.example"]);
    rig.all_have_read_the_log(&desk);
    rig.all_show("kept.example", &kept);
    rig.all_show("replaced.example", &before);
    rig.none_knows("added.example");
    standby.catches_up_with(&primary);
    to_standby.cut(Cut::Reset);
    let lost = import(&desk, &["lost.example"]);
    let late = import(&desk, &["replaced.example"]);
    rig.all_show("lost.example", &lost);
    rig.all_show("replaced.example", &late);

    to_servers.cut(Cut::Reset);
    primary.signal(Signal::Kill);
    for Machine { server, .. } in &rig.machines {
        assert!(shows(server, "kept.example", &kept), "from memory");
        assert!(server.refusal("unasked.example").contains("InternalError"));
    }
    standby.promote();
    until("a command writes", HEALS, || {
        desk.run(&["host", "set", "first.example"]).code == Some(0)
    });
    let added = import(&desk, &["added.example"]);
    // More changes than were lost: by their numbers alone the log seems to
    // continue.
    for number in 0..10 {
        desk.ok(&["host", "set", &format!("{number}.example")]);
    }
    to_servers.open();
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
