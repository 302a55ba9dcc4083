//! Tests upgrades to programs that are none.

use std::fs;

use rustix::process::Signal;

use super::{Handed, install, install_script};
use crate::sandbox::{SOON, binary, until};

#[test]
fn a_missing_program_is_refused() {
    let handed = Handed::start("");
    fs::remove_file(handed.program()).expect("ours");
    refused(&handed, "No such file or directory");
    // A reload needs no file: the old program runs on as it is.
    handed.reload(2, "", "");
    install(&handed.program(), binary().as_ref());
    upgraded(&handed, 3);
}

#[test]
fn a_program_that_exits_at_once_is_refused() {
    let handed = Handed::start("");
    install_script(&handed.program(), "exit 3");
    refused(&handed, "ended before it served");
    install(&handed.program(), binary().as_ref());
    upgraded(&handed, 2);
}

/// Asks for an upgrade by signal and by command, and looks for the reason.
fn refused(handed: &Handed, reason: &str) {
    let before = handed.server.log().len();
    handed.server.signal(Signal::USR2);
    until("the reason in the log", SOON, || {
        let log = handed.server.log();
        log[before..].contains(reason)
    });
    assert!(handed.serves(1), "{}", handed.server.log());
    let ran = handed.run("upgrade");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains(reason), "{}", ran.err);
    assert!(handed.serves(1), "{}", handed.server.log());
    assert_eq!(handed.starts(), 1, "{}", handed.server.log());
}

fn upgraded(handed: &Handed, generation: u32) {
    handed.write(generation, "", "");
    let ran = handed.run("upgrade");
    assert_eq!(ran.code, Some(0), "{}: {}", ran.err, handed.server.log());
    handed.until_serves(generation);
}
