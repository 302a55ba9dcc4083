//! Tests the promises for outages: which hosts are served, which are refused
//! with which alert, what log and metrics show, and that the server recovers.

pub(crate) mod clock;
mod copies;
mod database;
mod disk;
mod password;
mod redis_cache;

use std::time::Duration;

use serde_json::Value;

use crate::sandbox::{Sandbox, Server, until};

/// Makes a sandbox on this store, with pages and certificates for these hosts.
fn sandbox(url: &str, hosts: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    // Entries age within a test. The disk cache is off: it would answer instead
    // of the database (`disk_cache.rs` tests that).
    sandbox.configure("[cache]\nfresh = \"1s\"\ndisk = \"off\"\n");
    use_store(&sandbox, url);
    for host in hosts {
        sandbox.page(host, host);
        sandbox.import(&[host]);
    }
    sandbox
}

fn use_store(sandbox: &Sandbox, url: &str) {
    let config = std::fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let (before, line) = config.split_once("url = \"").expect("a store");
    let (_, after) = line.split_once('"').expect("a text");
    let config = format!("{before}url = \"{url}\"{after}");
    sandbox.write("sekisho.toml", &config);
}

/// Returns the states of store and feed from `/healthz`, such as `available
/// healthy`. Its status is always 200.
fn states(server: &Server) -> String {
    let answer = server.ask("/healthz");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(server.ask("/readyz").starts_with("HTTP/1.1 200"));
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let health: Value = serde_json::from_str(body).expect("JSON");
    let state = |of: &str| health[of]["state"].as_str().expect("a state").to_owned();
    format!("{} {}", state("store"), state("feed"))
}

/// Returns the value of an existing metric.
fn metric(server: &Server, name: &str) -> f64 {
    server.metric(name).expect(name)
}

/// Waits until the server has these states; meanwhile it must serve this host.
fn until_states(server: &Server, wanted: &str, cached: &str) {
    until(wanted, LONG, || {
        assert!(server.shows(cached, cached), "{}", server.log());
        states(server) == wanted
    });
}

/// Returns the log lines with this message.
fn logged(server: &Server, message: &str) -> Vec<Value> {
    let log = server.log();
    let lines = log.lines().map(serde_json::from_str);
    let lines = lines.map_while(Result::<Value, _>::ok);
    lines
        .filter(|line| line["fields"]["message"] == message)
        .collect()
}

fn is_logged(server: &Server, level: &str, message: &str) {
    until(message, LONG, || {
        logged(server, message)
            .iter()
            .any(|line| line["level"] == level)
    });
}

/// The circuit breaker's longest rest, with time for a loaded machine.
const LONG: Duration = Duration::from_secs(30);

const FEED_IS_BROKEN: &str = "the change feed is broken: cached answers age until it is back";
