//! Tests edits while `serve` runs, its admin listener, and its end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sekisho_testkit::{Key, client};

use crate::sandbox::{SOON, Sandbox, ca, until};

#[test]
fn edits_are_served_at_once() {
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page of a");
    sandbox.page("b.example", "page of b");
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a"));
    assert!(server.refusal("b.example").contains("UnrecognisedName"));

    sandbox.import(&["b.example"]);
    until("a new host", SOON, || {
        server.shows("b.example", "page of b")
    });
    sandbox.ok(&["host", "set", "a.example", "--root", "www/b.example"]);
    until("another root", SOON, || {
        server.shows("a.example", "page of b")
    });
    sandbox.ok(&["host", "set", "a.example", "--disabled"]);
    until("a disabled host", SOON, || {
        server.fetch("a.example").is_err()
    });
    assert!(server.refusal("a.example").contains("UnrecognisedName"));
    sandbox.ok(&[
        "host",
        "set",
        "a.example",
        "--disabled=false",
        "--min-tls",
        "1.3",
    ]);
    until("an enabled host", SOON, || {
        server.shows("a.example", "page of b")
    });
    until("TLS 1.3 only", SOON, || {
        server
            .fetch_with("a.example", client::config_tls12(ca()))
            .is_err()
    });
    sandbox.ok(&["cert", "remove", "b.example"]);
    until("no certificate", SOON, || {
        server.fetch("b.example").is_err()
    });
    sandbox.ok(&["host", "remove", "a.example"]);
    until("a removed host", SOON, || {
        server.fetch("a.example").is_err()
    });
    server.stop();
}

/// Promised are 100 ms, which a busy machine does not keep: `make bench-stores` measures it.
#[test]
fn a_change_is_served_soon() {
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    let mut waits = Vec::new();
    for round in 0..9 {
        let disabled = round % 2 == 0;
        let switch = if disabled {
            "--disabled"
        } else {
            "--disabled=false"
        };
        sandbox.ok(&["host", "set", "a.example", switch]);
        let written = Instant::now();
        until("the change", SOON, || {
            server.fetch("a.example").is_err() == disabled
        });
        waits.push(written.elapsed());
    }
    waits.sort();
    assert!(waits[4] <= Duration::from_secs(2), "{waits:?}");
}

#[test]
fn sigterm_drains_and_ends_well() {
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    for signal in [Signal::TERM, Signal::INT] {
        let mut server = sandbox.serve();
        assert!(server.shows("a.example", "page of a"));
        server.signal(signal);
        let status = server.ended();
        assert_eq!(status.code(), Some(0), "{}", server.log());
        assert!(
            TcpStream::connect(server.https).is_err(),
            "it still listens"
        );
    }
}

#[test]
fn the_admin_listener_reports_readiness_health_and_metrics() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    assert!(server.ask("/readyz").starts_with("HTTP/1.1 200"));
    assert!(server.ask("/healthz").starts_with("HTTP/1.1 200"));
    assert!(server.fetch("a.example").is_ok());
    assert!(server.ask("/metrics").contains("sekisho_handshakes_total{"));
}

#[test]
fn the_admin_listener_may_be_a_unix_socket() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let admin = "admin = \"127.0.0.1:0\"";
    assert!(config.contains(admin));
    sandbox.write(
        "sekisho.toml",
        &config.replace(admin, "admin = \"unix:admin.sock\""),
    );
    let path = sandbox.path("admin.sock");
    // A server that was killed leaves its socket file.
    drop(UnixListener::bind(&path).expect("a socket"));
    let mut server = sandbox.command(&["serve"]).spawn().expect("it runs");
    let mut answer = String::new();
    until("it answers", SOON, || {
        let Ok(mut stream) = UnixStream::connect(&path) else {
            return false;
        };
        let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("it reads");
        stream.read_to_string(&mut answer).is_ok()
    });
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let pid = i32::try_from(server.id()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a child has an id"), Signal::TERM).expect("it runs");
    assert!(server.wait().expect("it ends").success());
    assert!(!path.exists());
}

#[test]
fn plain_http_is_sent_to_https() {
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    let answer = server.fetch_plain("a.example", "/path?query");
    assert!(answer.starts_with("HTTP/1.1 308"), "{answer}");
    let bound = format!("https://a.example:{}/path?query\r\n", server.https.port());
    assert!(answer.contains(&bound), "{answer}");
    server.stop();
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let forwarded = config.replace("[listen]", "[listen]\npublic_port = 443");
    sandbox.write("sekisho.toml", &forwarded);
    let answer = sandbox.serve().fetch_plain("a.example", "/path?query");
    let public = "https://a.example/path?query\r\n";
    assert!(answer.contains(public), "{answer}");
}

#[test]
fn a_replaced_certificate_is_served() {
    let sandbox = Sandbox::new();
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    let is_served = || server.shows("a.example", "page of a");
    assert!(is_served());
    let first = sandbox.json(&["cert", "show", "a.example", "--json"])[0]["sha256"].clone();
    sandbox.import_type(&["a.example"], Key::P384);
    let second = sandbox.json(&["cert", "show", "a.example", "--json"])[0]["sha256"].clone();
    assert_ne!(first, second);
    let leaf = || crate::curl_openssl::fingerprint(server.https, "a.example", &[]);
    until("the new certificate", SOON, || second == leaf().as_str());
    assert!(is_served());
}
