//! Tests hand-overs that are asked for at once.

use std::process::Stdio;
use std::thread;

use rustix::process::Signal;

use super::{A_WHILE, Handed};
use crate::sandbox::Ran;

#[test]
fn a_hundred_sighups_in_a_second_are_one() {
    let handed = Handed::start("");
    handed.write(2, "", "");
    for _ in 0..100 {
        handed.server.signal(Signal::HUP);
        thread::sleep(std::time::Duration::from_millis(5));
    }
    handed.until_serves(2);
    thread::sleep(A_WHILE);
    assert_eq!(handed.starts(), 2, "{}", handed.server.log());
}

#[test]
fn two_at_once_serve_the_newest_configuration() {
    let handed = Handed::start("");
    handed.write(2, "", "");
    let commands = [(); 2].map(|()| {
        let mut command = handed.sandbox.command(&["reload"]);
        let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        piped.spawn().expect("the binary runs")
    });
    handed.server.signal(Signal::USR2);
    for command in commands {
        let ran = Ran::of(&command.wait_with_output().expect("it ends"));
        assert_eq!(ran.code, Some(0), "{}: {}", ran.err, handed.server.log());
    }
    handed.until_serves(2);
    thread::sleep(A_WHILE);
    assert!(handed.serves(2), "{}", handed.server.log());
    assert!(handed.starts() <= 4, "{}", handed.server.log());
}
