//! Tests that a name's first visit gets a certificate from a real CA.

use sekisho_testkit::client;
use sekisho_testkit::services::{Pebble, PebbleOptions, Postgres, free_ports};
use tokio::runtime::Runtime;

use crate::sandbox::{Sandbox, Server};

/// Pebble, which validates at the ports of the sandbox's server.
struct Fixture {
    pebble: Pebble,
    sandbox: Sandbox,
    /// Ports that Pebble knows, and the store, in place of the sandbox's own.
    chosen: [(String, String); 3],
    /// Root that Pebble issues under.
    issuer: String,
}

impl Fixture {
    fn start(store: &str) -> Self {
        let [https, http] = free_ports();
        let pebble = Pebble::start(&PebbleOptions {
            http_port: Some(http),
            tls_port: Some(https),
            ..PebbleOptions::default()
        });
        let port = |key: &str, port: u16| {
            let free = format!("{key} = [\"127.0.0.1:0\"]");
            (free, format!("{key} = [\"127.0.0.1:{port}\"]"))
        };
        let issuer = Runtime::new()
            .expect("a runtime")
            .block_on(pebble.issuer(0));
        Self {
            sandbox: Sandbox::new(),
            chosen: [
                port("https", https),
                port("http", http),
                ("sqlite:hosts.db".into(), store.to_owned()),
            ],
            pebble,
            issuer,
        }
    }

    /// Writes the configuration with this `[acme]`, or without one.
    fn configure(&self, acme: &str) {
        self.sandbox.configure(acme);
        let mut text = std::fs::read_to_string(self.sandbox.path("sekisho.toml")).expect("a file");
        for (own, chosen) in &self.chosen {
            assert!(text.contains(own));
            text = text.replace(own, chosen);
        }
        self.sandbox.write_private("sekisho.toml", &text);
    }

    fn acme(&self, keys: &str) -> String {
        format!(
            "[acme]\ncas = [\"pebble\"]\nagree = true\naddresses = [\"127.0.0.1\"]\n\
             resolvers = [\"127.0.0.1:{}\"]\n{keys}\n\
             [acme.ca.pebble]\ndirectory = \"{}\"\nroot = \"{}\"\n",
            self.pebble.challenges().dns_port(),
            self.pebble.directory(),
            self.pebble.root().display()
        )
    }

    /// Makes a host with a page, without a certificate.
    fn host(&self, name: &str) {
        self.sandbox.page(name, &format!("page of {name}"));
        self.sandbox.ok(&["host", "set", name]);
    }

    /// Fetches the host's page as a client that trusts Pebble.
    fn visit(&self, server: &Server, name: &str) -> std::io::Result<String> {
        server.fetch_with(name, client::config_of(&self.issuer))
    }

    fn assert_served(&self, server: &Server, name: &str) {
        let answer = self.visit(server, name);
        let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}\n{}", server.log()));
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&format!("page of {name}")), "{answer}");
    }
}

#[test]
fn the_first_visit_gets_a_certificate_over_tls_and_over_http() {
    visit_first(&Fixture::start("sqlite:hosts.db"));
}

#[test]
fn the_first_visit_gets_a_certificate_into_postgresql() {
    visit_first(&Fixture::start(&Postgres::shared().database()));
}

fn visit_first(fixture: &Fixture) {
    for (solver, name) in [("tls-alpn-01", "a.example"), ("http-01", "b.example")] {
        fixture.configure(&fixture.acme(&format!("solvers = [\"{solver}\"]")));
        fixture.host(name);
        let server = fixture.sandbox.serve();
        fixture.assert_served(&server, name);
        // A name without a record is refused, and nothing is ordered for it.
        let refused = fixture
            .visit(&server, "unknown.example")
            .expect_err("it is unknown");
        assert!(
            refused.to_string().contains("UnrecognisedName"),
            "{refused}"
        );
        assert!(!fixture.pebble.log().contains("unknown.example"));
        server.stop();
    }
    // The certificates are in the store: a server that orders nothing serves them.
    fixture.configure("");
    let server = fixture.sandbox.serve();
    for name in ["a.example", "b.example"] {
        fixture.assert_served(&server, name);
    }
}
