//! Tests that the site of a host record reaches none of the server's own listeners.

use std::fs;

use sekisho_testkit::services::free_ports;

use crate::sandbox::{Sandbox, upstream};

const NAMES: [&str; 7] = [
    "https.example",
    "http.example",
    "admin.example",
    "https-by-name.example",
    "http-by-name.example",
    "admin-by-name.example",
    "other.example",
];

#[test]
fn own_listeners_are_no_upstreams_of_a_record() {
    let sandbox = Sandbox::new();
    sandbox.allow(&["127.0.0.0/8"]);
    sandbox.import(&NAMES);
    let server = sandbox.serve();
    // The configuration has port 0: only the server knows its ports.
    let ports = [server.https, server.http, server.admin()].map(|address| address.port());
    let literal = ports.map(|port| format!("http://127.0.0.1:{port}"));
    let named = ports.map(|port| format!("http://localhost:{port}"));
    let own = literal.iter().chain(&named);
    for (name, url) in NAMES.iter().zip(own) {
        sandbox.ok(&["host", "set", name, "--upstream", url]);
        let answer = server.fetch(name).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 503 "), "{url}: {answer}");
    }
    let refused = "sekisho_sites_refused_total{reason=\"upstream\"}";
    let refused = server.metric(refused).expect("a metric");
    assert!(refused >= 6.0, "{refused}");
    let reached = server.metric("sekisho_handshakes_total{result=\"not_tls\"}");
    assert_eq!(reached, Some(0.0));
    // The network itself is allowed.
    let other = format!("http://{}", upstream("page of another"));
    sandbox.ok(&["host", "set", "other.example", "--upstream", &other]);
    assert!(server.shows("other.example", "page of another"));
    server.stop();
}

#[test]
fn a_listener_that_allow_names_with_its_port_is_an_upstream() {
    let sandbox = Sandbox::new();
    let file = sandbox.path("sekisho.toml");
    let mut config = fs::read_to_string(&file).expect("a file");
    let ports: [u16; 3] = free_ports();
    for port in ports {
        config = config.replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1);
    }
    sandbox.write("sekisho.toml", &config);
    sandbox.allow(&["127.0.0.0/8"]);
    sandbox.import(&["a.example"]);
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    for port in ports {
        let error = sandbox.fails(&["host", "set", "a.example", "--upstream", &url(port)]);
        assert!(error.contains("or the server's own"), "{port}: {error}");
    }
    let http = ports[1];
    sandbox.allow(&["127.0.0.0/8", &format!("127.0.0.1:{http}")]);
    sandbox.ok(&["host", "set", "a.example", "--upstream", &url(http)]);
    let server = sandbox.serve();
    let answer = server.fetch("a.example").expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    server.stop();
}
