//! Tests how `serve` handles signals.

use rustix::process::Signal;

use crate::sandbox::{SOON, Sandbox, until};

#[test]
fn quit_drains_as_terminate_does() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let mut server = sandbox.serve();
    server.signal(Signal::QUIT);
    let ended = server.ended();
    assert!(ended.success(), "{ended}: {}", server.log());
    assert!(
        server.log().contains("SIGQUIT: draining"),
        "{}",
        server.log()
    );
}

#[test]
fn a_log_that_is_not_there_is_not_opened_again() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    server.signal(Signal::USR1);
    until("SIGUSR1", SOON, || server.log().contains("SIGUSR1"));
    assert!(server.fetch("a.example").is_ok());
    server.stop();
}
