//! Tests a store behind HTTPS.

use std::fs;
use std::time::Duration;

use sekisho_testkit::{Answer, Endpoint, Key, Pair, Speaks, client};
use tokio::runtime::Builder;

use crate::sandbox::{Sandbox, ca, until};

pub(crate) const TOKEN: &str = "token-of-the-endpoint";

#[test]
fn hosts_of_an_endpoint_are_served() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(Speaks::Http2(&certificate()));
    endpoint.require(TOKEN);
    configure(&sandbox, &endpoint);
    put(&endpoint, "a.example", &["a.example"]);
    put(&endpoint, "_.b.example", &["*.b.example"]);
    for host in ["a.example", "x.b.example"] {
        sandbox.page(host, &format!("page of {host}"));
    }
    let out = sandbox.ok(&["check"]);
    assert!(out.contains("/{host} is there"), "{out}");
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a.example"));
    assert!(server.shows("x.b.example", "page of x.b.example"));
    assert!(server.refusal("c.example").contains("UnrecognisedName"));
    endpoint.put("/d.example", Answer::status(500));
    assert!(server.refusal("d.example").contains("InternalError"));
    let error = sandbox.fails(&["host", "list"]);
    assert!(error.contains("is written by others"), "{error}");

    // Cached hosts survive an outage of the store.
    drop(endpoint);
    assert!(server.shows("a.example", "page of a.example"));
    assert!(server.refusal("e.example").contains("InternalError"));
    let log = server.log();
    assert!(log.contains("500 Internal Server Error"), "{log}");
    assert!(!log.contains(TOKEN), "{log}");
    server.stop();
}

#[test]
fn an_endpoint_on_loopback_needs_no_tls() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(Speaks::Plain);
    write(
        &sandbox,
        &format!("http://{}/{{host}}", endpoint.address),
        "",
    );
    put(&endpoint, "a.example", &["a.example"]);
    sandbox.page("a.example", "page of a");
    sandbox.ok(&["check"]);
    let server = sandbox.serve();
    assert!(server.shows("a.example", "page of a"));
    server.stop();
}

#[test]
fn serve_starts_without_its_endpoint_and_finds_it_later() {
    let sandbox = Sandbox::new();
    let pair = certificate();
    let endpoint = Endpoint::start(Speaks::Http2(&pair));
    let address = endpoint.address;
    configure(&sandbox, &endpoint);
    drop(endpoint);
    sandbox.page("a.example", "page of a");
    let error = sandbox.fails(&["check", "--reachable"]);
    assert!(
        error.contains("no connection: ") && error.contains(&address.to_string()),
        "{error}"
    );
    let server = sandbox.serve();
    for _ in 0..20 {
        assert!(server.refusal("a.example").contains("InternalError"));
    }
    let endpoint = Endpoint::start_at(address, Speaks::Http2(&pair));
    put(&endpoint, "a.example", &["a.example"]);
    until("the endpoint is back", BACK, || {
        server.shows("a.example", "page of a")
    });
    server.stop();
}

#[test]
fn check_says_what_is_wrong_with_an_endpoint() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(Speaks::Http2(&certificate()));
    configure(&sandbox, &endpoint);
    let fails = |says: &[&str]| {
        let error = sandbox.fails(&["check", "--reachable"]);
        for says in says {
            assert!(error.contains(says), "{says}: {error}");
        }
        assert!(!error.contains(TOKEN), "{error}");
    };
    endpoint.require("another");
    fails(&["401 Unauthorized", "[store] token", "sekisho-check.invalid"]);
    endpoint.require(TOKEN);
    sandbox.ok(&["check"]);
    endpoint.otherwise(Answer::status(302).with("location", "/login"));
    fails(&["302 Found", "redirects are not followed"]);
    endpoint.otherwise(Answer::ok("<html>a page for everything</html>"));
    fails(&["holds no certificate"]);
    endpoint.otherwise(Answer::status(404).after(Duration::from_secs(600)));
    fails(&["no answer within 1.9s"]);
    endpoint.otherwise(Answer::status(410));
    sandbox.ok(&["check"]);

    sandbox.write("ca.pem", &sekisho_testkit::TestCa::new().root_pem());
    fails(&["no connection: invalid peer certificate"]);
    sandbox.write("ca.pem", "");
    fails(&["ca.pem", "holds no certificate"]);
    fs::remove_file(sandbox.path("token")).expect("a file");
    fails(&["[store] token", "/token: No such file"]);
    sandbox.write_private("token", "two words");
    fails(&["/token: a token has 1 to 8192 characters of visible ASCII"]);
}

#[test]
fn many_who_ask_for_one_host_cost_one_request() {
    let sandbox = Sandbox::new();
    let endpoint = Endpoint::start(Speaks::Http2(&certificate()));
    configure(&sandbox, &endpoint);
    sandbox.page("cold.example", "page of cold");
    let pair = ca().issue(&["cold.example"], Key::P256);
    // The delay lets all clients arrive before the answer.
    let answer = Answer::ok(bundle(&pair)).after(Duration::from_millis(1500));
    endpoint.put("/cold.example", answer);
    let server = sandbox.serve();
    let runtime = Builder::new_current_thread().enable_all().build();
    let shown = runtime.expect("a runtime").block_on(async {
        let fetches = (0..200).map(|_| {
            let config = client::config(ca());
            tokio::spawn(client::fetch(server.https, "cold.example", "/", config))
        });
        let mut shown = 0;
        for fetch in fetches.collect::<Vec<_>>() {
            let answer = fetch.await.expect("it ends").expect("an answer");
            shown += usize::from(answer.contains("page of cold"));
        }
        shown
    });
    assert_eq!(shown, 200);
    assert_eq!(endpoint.times("/cold.example"), 1);
    // The second request is for the wildcard above the host.
    assert_eq!(endpoint.asked().len(), 2);
    // Each of the two requests may open a connection before either is up; one
    // is kept.
    assert!((1..=2).contains(&endpoint.connections()));
    server.stop();
}

pub(crate) fn certificate() -> Pair {
    ca().issue(&["127.0.0.1"], Key::P256)
}

fn bundle(pair: &Pair) -> String {
    pair.chain_pem() + &pair.key_pem()
}

fn put(endpoint: &Endpoint, stem: &str, names: &[&str]) {
    let pair = ca().issue(names, Key::P256);
    endpoint.put(&format!("/{stem}"), Answer::ok(bundle(&pair)));
}

/// Configures the endpoint as the store, with the test CA and a token.
pub(crate) fn configure(sandbox: &Sandbox, endpoint: &Endpoint) {
    sandbox.write("ca.pem", &ca().root_pem());
    sandbox.write_private("token", &format!("{TOKEN}\n"));
    let url = format!("https://{}/{{host}}", endpoint.address);
    write(sandbox, &url, "token = \"file:token\"\nca = \"ca.pem\"\n");
}

fn write(sandbox: &Sandbox, url: &str, more: &str) {
    sandbox.configure("");
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let config = config
        .replace("\"sqlite:hosts.db\"\n", &format!("\"{url}\"\n{more}"))
        .replace("[keys]\nmaster = \"file:master.key\"\n", "");
    sandbox.write("sekisho.toml", &config);
}

/// Longest rest of the circuit breaker, on a loaded machine.
const BACK: Duration = Duration::from_secs(15);
