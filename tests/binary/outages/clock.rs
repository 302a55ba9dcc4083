//! Tests jumps of a server's clock.

use std::process::Command;

use sekisho_testkit::services::Postgres;

use super::{is_logged, metric, sandbox, states};
use crate::sandbox::{SOON, Sandbox, Server, until};

#[test]
fn a_clock_that_jumps_stops_nothing() {
    let sandbox = sandbox(&Postgres::shared().database(), &["a.example"]);
    let server = with_its_own_clock(&sandbox, Clocks::Wall);
    assert!(server.shows("a.example", "a.example"));
    assert_eq!(metric(&server, "sekisho_expired_served_total"), 0.0);
    for (number, years) in [200, -40, 0].into_iter().enumerate() {
        let ahead = years * 365 * 24 * 3600_i64;
        sandbox.write("ahead", &ahead.to_string());
        assert!(server.shows("a.example", "a.example"), "{}", server.log());
        // Changes of other programs still arrive.
        let host = format!("new{number}.example");
        sandbox.page(&host, &host);
        sandbox.import(&[&host]);
        until("a new host", SOON, || server.shows(&host, &host));
        assert_eq!(states(&server), "available healthy");
    }
    // The test certificates, valid from 2020 to 2120, were expired or not valid
    // yet.
    let served = metric(&server, "sekisho_expired_served_total");
    assert!(served >= 4.0, "{served}");
    is_logged(&server, "WARN", "served a certificate that is expired");
    assert!(server.shows("a.example", "a.example"));
    assert_eq!(metric(&server, "sekisho_expired_served_total"), served);
    server.stop();
}

/// Clocks that jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// The wall clock, as when it is set.
    Wall,
    /// The monotonic clock, too: time has passed.
    All,
}

/// Starts a server with clocks that are ahead by the seconds in the file `ahead`.
pub(crate) fn with_its_own_clock(sandbox: &Sandbox, clocks: Clocks) -> Server {
    let shim = sandbox.path("jump.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/jump.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&shim)
        .arg(source)
        .status();
    assert!(built.expect("a C compiler").success());
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command
        .env("LD_PRELOAD", shim)
        .env("JUMP_FILE", sandbox.path("ahead"));
    if clocks == Clocks::All {
        command.env("JUMP_ALL", "1");
    }
    Server::start(command)
}
