//! Tests a stalled disk: only hosts and sites that need it wait.

use std::fs;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use sekisho_testkit::{Key, client};
use tokio::runtime::Builder;

use crate::sandbox::{SOON, Sandbox, Server, ca, until};

#[test]
fn a_stalled_store_stalls_no_cached_host() {
    let sandbox = Sandbox::new();
    sandbox.configure("[server]\nworkers = 1\nhandshake_timeout = \"60s\"\n");
    for host in ["cached.example", "cold.example"] {
        sandbox.page(host, host);
    }
    sandbox.import(&["cached.example"]);
    // The first host's lookup must not read all pages of the file into SQLite's
    // cache.
    for number in 0..200 {
        let host = format!("between-{number}.example");
        sandbox.pair(&format!("pairs/{host}"), &[&host], Key::P256);
    }
    sandbox.ok(&["cert", "import", "--dir", "pairs"]);
    sandbox.import(&["cold.example"]);
    let server = slow(&sandbox, "hosts.db");
    assert!(server.shows("cached.example", "cached.example"));

    fs::write(sandbox.path("slow"), "").expect("a file");
    let cold = fetch_aside(&server, "cold.example");
    let mut served = 0;
    // The load ends at the store's deadline. A stalled worker would answer no
    // request before it.
    let answer = loop {
        assert!(server.shows("cached.example", "cached.example"));
        served += 1;
        if let Ok(answer) = cold.try_recv() {
            break answer;
        }
    };
    assert!(answer.contains("InternalError"), "{answer}");
    assert!(served > 5, "{served} requests were answered meanwhile");

    fs::remove_file(sandbox.path("slow")).expect("a file");
    until("the store is back", SOON, || {
        server.shows("cold.example", "cold.example")
    });
    server.stop();
}

#[test]
fn a_store_that_stays_stalled_is_a_failure_and_no_absence() {
    let sandbox = Sandbox::new();
    sandbox.page("cold.example", "cold");
    sandbox.import(&["cold.example"]);
    let server = slow(&sandbox, "hosts.db");
    fs::write(sandbox.path("slow"), "").expect("a file");
    // The load ends at the store's deadline, before the handshake's.
    assert!(server.refusal("cold.example").contains("InternalError"));
    assert!(server.refusal("unknown.example").contains("InternalError"));
    fs::remove_file(sandbox.path("slow")).expect("a file");
}

#[test]
fn a_stalled_site_stalls_no_other() {
    let sandbox = Sandbox::new();
    sandbox.configure("[server]\nworkers = 1\n");
    for host in ["hung.example", "well.example"] {
        sandbox.page(host, host);
    }
    sandbox.import(&["hung.example", "well.example"]);
    let server = slow(&sandbox, "www/hung.example");
    fs::write(sandbox.path("slow"), "").expect("a file");
    // More requests than the server reads files for at once.
    let hung: Vec<_> = (0..100)
        .map(|_| fetch_aside(&server, "hung.example"))
        .collect();
    let waiting = |asked: &Receiver<String>| asked.try_recv().is_err();
    until("the requests wait", SOON, || {
        server.metric("sekisho_connections_open") >= Some(100.0)
    });
    let begun = Instant::now();
    assert!(server.shows("well.example", "well.example"));
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(hung.iter().all(waiting), "the site did not stall");
    fs::remove_file(sandbox.path("slow")).expect("a file");
    assert!(server.shows("hung.example", "hung.example"));
}

/// Starts a server for which reads of this file stall while the file `slow`
/// exists.
fn slow(sandbox: &Sandbox, file: &str) -> Server {
    let shim = sandbox.path("slow_read.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/shim/slow_read.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&shim)
        .args([source, "-ldl"])
        .status();
    assert!(built.expect("a C compiler").success());
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command
        .env("LD_PRELOAD", shim)
        .env("SLOW_FILE", sandbox.path(file))
        .env("SLOW_WHILE", sandbox.path("slow"));
    Server::start(command)
}

/// Fetches a page on another thread. The receiver gets the answer, or the
/// error.
pub(crate) fn fetch_aside(server: &Server, host: &'static str) -> Receiver<String> {
    let (tell, told) = channel();
    let address = server.https;
    thread::spawn(move || {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let fetched = runtime.block_on(client::fetch(address, host, "/", client::config(ca())));
        // The test may have ended.
        let _ = tell.send(fetched.unwrap_or_else(|error| error.to_string()));
    });
    told
}
