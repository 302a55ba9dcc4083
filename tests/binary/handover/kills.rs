//! Tests SIGKILL of a process in the middle of a hand-over and after one.

use std::net::TcpStream;

use rustix::process::{Pid, Signal, kill_process};

use super::{Handed, install, install_script};
use crate::sandbox::{SOON, binary, until};

#[test]
fn a_new_process_that_is_killed_while_it_starts_changes_nothing() {
    let handed = Handed::start("");
    let new = begin(&handed, "exec sleep 600");
    kill_process(new, Signal::KILL).expect("it runs");
    until("the new process is gone", SOON, || {
        handed.others().is_empty()
    });
    assert!(handed.serves(1), "{}", handed.server.log());
    install(&handed.program(), binary().as_ref());
    handed.reload(2, "", "");
}

#[test]
fn an_old_process_that_is_killed_while_another_starts_takes_it_along() {
    let mut handed = Handed::start("");
    let binary = binary();
    let late = format!("sleep 2; exec '{}' \"$@\"", binary.to_string_lossy());
    begin(&handed, &late);
    handed.server.signal(Signal::KILL);
    handed.server.ended();
    until("no process is left", SOON, || handed.processes().is_empty());
    assert!(TcpStream::connect(handed.server.https).is_err());
}

#[test]
fn a_new_process_that_is_killed_later_ends_the_service() {
    let mut handed = Handed::start("");
    handed.reload(2, "", "");
    let [new] = handed.others()[..] else {
        panic!("{:?}: {}", handed.others(), handed.server.log());
    };
    kill_process(new, Signal::KILL).expect("it runs");
    let status = handed.server.ended();
    assert!(!status.success(), "{status}: {}", handed.server.log());
    until("no process is left", SOON, || handed.processes().is_empty());
}

#[test]
fn the_first_process_that_is_killed_later_takes_the_new_one_along() {
    let mut handed = Handed::start("");
    handed.reload(2, "", "");
    handed.server.signal(Signal::KILL);
    handed.server.ended();
    until("no process is left", SOON, || handed.processes().is_empty());
    assert!(TcpStream::connect(handed.server.https).is_err());
}

#[test]
fn the_first_process_ends_with_the_newest_one() {
    let mut handed = Handed::start("");
    for generation in 2..5 {
        handed.reload(generation, "", "");
    }
    handed.server.signal(Signal::TERM);
    let status = handed.server.ended();
    assert!(status.success(), "{status}: {}", handed.server.log());
    until("no process is left", SOON, || handed.processes().is_empty());
}

/// The end of the newest process may be seen before the message that it is the newest.
#[test]
fn a_signal_while_the_first_process_leaves_ends_both_well() {
    for _ in 0..5 {
        let mut handed = Handed::start("");
        handed.server.signal(Signal::HUP);
        until("the first process leaves", SOON, || {
            handed.server.log().contains("ended after the hand-over")
        });
        handed.server.signal(Signal::TERM);
        let status = handed.server.ended();
        assert!(status.success(), "{status}: {}", handed.server.log());
    }
}

/// Begins an upgrade to a script; returns its process.
fn begin(handed: &Handed, script: &str) -> Pid {
    install_script(&handed.program(), script);
    handed.server.signal(Signal::USR2);
    until("the new process", SOON, || !handed.others().is_empty());
    assert!(handed.serves(1), "{}", handed.server.log());
    handed.others()[0]
}
