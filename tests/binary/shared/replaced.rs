//! Tests that a replaced certificate, say of a stolen key, leaves every server
//! at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use super::*;

/// Handshake: its time, and whether it showed the replaced certificate.
struct Seen {
    begun: Instant,
    ended: Instant,
    old: bool,
}

#[test]
fn a_certificate_of_many_hosts_is_off_every_server_at_once() {
    let rig = Rig::new();
    let hosts: Vec<_> = (0..50).map(|number| format!("h{number}.example")).collect();
    let names: Vec<_> = hosts.iter().map(String::as_str).collect();
    let stolen = import(&rig.machines[0].sandbox, &names);
    // From here on every server has every host in its memory cache.
    for host in &hosts {
        rig.all_show(host, &stolen);
    }

    let (ready, done) = (Barrier::new(4), AtomicBool::new(false));
    let seen = thread::scope(|scope| {
        let watchers = rig.machines.each_ref().map(|machine| {
            let (hosts, stolen, ready, done) = (&hosts, &stolen, &ready, &done);
            scope.spawn(move || {
                ready.wait();
                watch(&machine.server, hosts, stolen, done)
            })
        });
        ready.wait();
        let fresh = import(&rig.machines[1].sandbox, &names);
        for host in &hosts {
            rig.all_show(host, &fresh);
        }
        done.store(true, Ordering::SeqCst);
        watchers.map(|watcher| watcher.join().expect("every handshake succeeds"))
    });
    for seen in seen {
        let fresh = seen.iter().filter(|one| !one.old);
        let first = fresh.map(|one| one.ended).min();
        let first = first.expect("the fresh one was seen");
        let late = seen.iter().filter(|one| one.old && one.begun > first);
        assert_eq!(late.count(), 0, "of {} handshakes", seen.len());
    }
    rig.stop();
}

/// Makes handshakes with one host after the other until `done` is set.
fn watch(server: &Server, hosts: &[String], stolen: &Pair, done: &AtomicBool) -> Vec<Seen> {
    let mut seen = Vec::new();
    let started = Instant::now();
    for host in hosts.iter().cycle() {
        let begun = Instant::now();
        let shown = leaf(server.https, host)
            .unwrap_or_else(|error| panic!("{host}: {error}: {}", server.log()));
        seen.push(Seen {
            begun,
            ended: Instant::now(),
            old: shown == stolen.chain[0],
        });
        if done.load(Ordering::SeqCst) || started.elapsed() > HEALS {
            break;
        }
    }
    seen
}
