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
fn signals_without_a_meaning_are_logged_and_change_nothing() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    for (signal, name) in [
        (Signal::HUP, "SIGHUP"),
        (Signal::USR1, "SIGUSR1"),
        (Signal::USR2, "SIGUSR2"),
    ] {
        server.signal(signal);
        until(name, SOON, || server.log().contains(name));
        assert!(server.fetch("a.example").is_ok());
    }
    server.stop();
}
