//! Tests reloads that are refused: the old process serves on and says why.

use std::net::TcpListener;

use rustix::process::Signal;

use super::Handed;
use crate::sandbox::{SOON, until};

#[test]
fn a_bad_file_changes_nothing_and_says_why() {
    let handed = Handed::start("");
    handed.write(2, "", "[server]\nworkerz = 2\n");
    handed.server.signal(Signal::HUP);
    until("the reason", SOON, || {
        handed.server.log().contains("workerz")
    });
    assert!(handed.serves(1), "{}", handed.server.log());
    let ran = handed.run("reload");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("unknown key `workerz`"), "{}", ran.err);
    assert!(ran.err.contains("sekisho.toml:"), "{}", ran.err);
    assert!(handed.serves(1), "{}", handed.server.log());
    assert_eq!(handed.starts(), 1, "{}", handed.server.log());
    // Now of all times one asks how the server is.
    let status = handed.run("status");
    assert_eq!(status.code, Some(0), "{}", status.err);
    assert!(status.out.contains("up "), "{}", status.out);
    let warned = "unknown key `workerz`";
    assert!(status.err.contains(warned), "{}", status.err);
    handed.reload(3, "", "");
}

#[test]
fn a_taken_address_changes_nothing_and_is_named() {
    let handed = Handed::start("");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it is bound").to_string();
    let listen = format!("https , \"{address}\"");
    handed.write(2, &listen, "");
    let ran = handed.run("reload");
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains(&address), "{}", ran.err);
    assert!(handed.serves(1), "{}", handed.server.log());
    drop(taken);
    handed.reload(2, &listen, "");
    // The next one closes it again.
    handed.reload(3, "", "");
    until("the address is closed", SOON, || {
        std::net::TcpStream::connect(&address).is_err()
    });
}
