//! Tests issuance at step-ca, which validates inside the request that announces a
//! challenge and has neither renewal information nor `caaIdentities`.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use sekisho_testkit::services::{StepCa, free_ports};
use sekisho_testkit::{Cut, Proxy, client};
use serde_json::Value;

use crate::sandbox::{Sandbox, Server, until};

/// A CA that validates at the ports of the sandbox's server.
struct Fixture {
    ca: StepCa,
    proxy: Proxy,
    sandbox: Sandbox,
    ports: [u16; 2],
}

impl Fixture {
    /// Starts a CA with this lifetime of certificates. Without `is_open` it finds nobody
    /// where it validates over TLS.
    fn start(lifetime_s: u64, is_open: bool) -> Self {
        let [https, http, nobody] = free_ports();
        let ca = StepCa::start(lifetime_s, http, if is_open { https } else { nobody });
        Self {
            proxy: Proxy::before(ca.port()),
            ca,
            sandbox: Sandbox::new(),
            ports: [https, http],
        }
    }

    fn configure(&self, keys: &str) {
        // CAA stays on: it must not hold a name up that no CA would refuse.
        let acme = format!(
            "[acme]\ncas = [\"step\"]\nagree = true\nresolvers = [\"127.0.0.1:{}\"]\n{keys}\n\
             [acme.ca.step]\ndirectory = \"https://127.0.0.1:{}{}\"\nca = \"{}\"\n",
            self.ca.challenges().dns_port(),
            self.proxy.port(),
            self.ca.path(),
            self.ca.root().display()
        );
        self.sandbox.configure(&acme);
        let mut text = fs::read_to_string(self.sandbox.path("sekisho.toml")).expect("a file");
        for (key, port) in ["https", "http"].into_iter().zip(self.ports) {
            let free = format!("{key} = [\"127.0.0.1:0\"]");
            text = text.replace(&free, &format!("{key} = [\"127.0.0.1:{port}\"]"));
        }
        self.sandbox.write_private("sekisho.toml", &text);
    }

    fn host(&self, name: &str) {
        self.sandbox.page(name, &format!("page of {name}"));
        self.sandbox.ok(&["host", "set", name]);
    }

    fn visit(&self, server: &Server, name: &str) -> std::io::Result<String> {
        server.fetch_with(name, client::config_of(&self.ca.root_pem()))
    }

    fn assert_served(&self, server: &Server, name: &str) {
        let answer = self.visit(server, name);
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}\n{}", server.log()));
        assert!(answer.contains(&format!("page of {name}")), "{answer}");
    }

    fn shown(&self, name: &str) -> Value {
        self.sandbox.json(&["cert", "show", name, "--json"])
    }
}

#[test]
fn the_first_visit_gets_a_certificate_by_each_challenge() {
    let fixture = Fixture::start(3600, true);
    for (solver, name) in [("tls-alpn-01", "a.example"), ("http-01", "b.example")] {
        fixture.configure(&format!("solvers = [\"{solver}\"]"));
        fixture.host(name);
        let server = fixture.sandbox.serve();
        fixture.assert_served(&server, name);
        server.stop();
    }
}

#[test]
fn the_next_challenge_is_tried_where_port_443_is_closed() {
    let fixture = Fixture::start(3600, false);
    fixture.configure("");
    fixture.host("a.example");
    let server = fixture.sandbox.serve();
    fixture.assert_served(&server, "a.example");
    assert!(server.log().contains("trying the next challenge"));
    server.stop();
}

#[test]
fn certificates_of_one_name_are_ordered_one_after_the_other_and_at_once() {
    let fixture = Fixture::start(3600, true);
    fixture.configure("solvers = [\"tls-alpn-01\"]");
    fixture.host("a.example");
    fixture.host("b.example");
    let server = fixture.sandbox.serve();
    let issue = |name: &str, kind: &str| {
        let args = ["cert", "issue", name, "--key", kind];
        fixture.sandbox.run(&args)
    };
    // The answer of the first order is not the second one's.
    for kind in ["ecdsa", "rsa", "ecdsa"] {
        let ran = issue("a.example", kind);
        assert_eq!(ran.code, Some(0), "{kind}: {}\n{}", ran.err, server.log());
    }
    thread::scope(|scope| {
        let both = ["ecdsa", "rsa"].map(|kind| scope.spawn(move || issue("b.example", kind)));
        for ran in both.map(|one| one.join().expect("it ran")) {
            assert_eq!(ran.code, Some(0), "{}\n{}", ran.err, server.log());
        }
    });
    for name in ["a.example", "b.example"] {
        let shown = fixture.shown(name);
        let mut types: Vec<_> = shown.as_array().expect("an array").iter().collect();
        types.sort_by_key(|one| one["type"].as_str());
        let types: Vec<_> = types.iter().map(|one| &one["type"]).collect();
        assert_eq!(types, ["ecdsa", "rsa"], "{shown}");
    }
    let log = server.log();
    assert!(log.contains("challenge answered"), "{log}");
    server.stop();
}

#[test]
fn an_order_of_a_shared_certificate_says_that_it_is_for_all() {
    let fixture = Fixture::start(3600, true);
    fixture.configure("");
    fixture.host("a.example");
    fixture.host("b.example");
    let server = fixture.sandbox.serve();
    let issue = |args: &[&str]| fixture.sandbox.run(&[&["cert", "issue"], args].concat());
    let first = issue(&["--together", "a.example", "b.example"]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert!(!first.err.contains("shares"), "{}", first.err);
    let again = issue(&["b.example"]);
    assert_eq!(again.code, Some(0), "{}", again.err);
    let note = "note: b.example shares a certificate, which is renewed for a.example";
    assert!(again.err.contains(note), "{}", again.err);
    server.stop();
}

/// Lifetime, and an outage that begins before the renewal is due and leaves less than a
/// quarter of the lifetime: as of 3 minutes in 5.
#[test]
fn a_short_lived_certificate_outlives_an_outage_of_its_ca() {
    const LIFETIME: u64 = 90;
    let fixture = Fixture::start(LIFETIME, true);
    fixture.configure("");
    fixture.host("a.example");
    let server = fixture.sandbox.serve();
    fixture.assert_served(&server, "a.example");
    let begun = Instant::now();
    let first = fixture.shown("a.example")[0]["sha256"].clone();
    let at = |seconds| begun + Duration::from_secs(seconds);
    let served_until = |moment: Instant| {
        while Instant::now() < moment {
            fixture.assert_served(&server, "a.example");
            thread::sleep(Duration::from_millis(500));
        }
    };
    served_until(at(LIFETIME / 3));
    fixture.proxy.cut(Cut::Reset);
    served_until(at(LIFETIME * 3 / 4));
    assert_eq!(fixture.shown("a.example")[0]["sha256"], first);
    fixture.proxy.open();
    until("it is renewed", Duration::from_secs(60), || {
        fixture.assert_served(&server, "a.example");
        fixture.shown("a.example")[0]["sha256"] != first
    });
    assert!(begun.elapsed() < Duration::from_secs(LIFETIME), "in time");
    server.stop();
}
