//! Tests that a name's first visit gets a certificate from a real CA.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Instant;

use sekisho_certs::store::Write;
use sekisho_certs::{Clock, Fence, HostPattern, Lineage, Tenant};
use sekisho_testkit::services::{Pebble, PebbleOptions, Postgres, free_ports};
use sekisho_testkit::{Answer, Endpoint, Speaks, client};
use tokio::runtime::Runtime;

use crate::acme::{ACME, sealer};
use crate::sandbox::{SOON, Sandbox, Server, ca, until};

/// Pebble, which validates at the ports of the sandbox's server.
pub(crate) struct Fixture {
    pub(crate) pebble: Pebble,
    pub(crate) sandbox: Sandbox,
    /// Ports that Pebble knows, and the store, in place of the sandbox's own.
    chosen: [(String, String); 3],
    /// Root that Pebble issues under.
    issuer: String,
    /// URL of the directory as servers reach it.
    pub(crate) directory: String,
    /// Name server of the servers.
    resolver: SocketAddr,
}

impl Fixture {
    pub(crate) fn start(store: &str) -> Self {
        Self::with(store, PebbleOptions::default())
    }

    pub(crate) fn with(store: &str, options: PebbleOptions) -> Self {
        let [https, http] = free_ports();
        let pebble = Pebble::start(&PebbleOptions {
            http_port: Some(http),
            tls_port: Some(https),
            ..options
        });
        let own = (Ipv4Addr::LOCALHOST, pebble.challenges().dns_port()).into();
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
            directory: pebble.directory(),
            resolver: options.resolver.unwrap_or(own),
            pebble,
            issuer,
        }
    }

    /// Writes the configuration with this `[acme]`, or without one.
    pub(crate) fn configure(&self, acme: &str) {
        self.sandbox.configure(acme);
        let mut text = std::fs::read_to_string(self.sandbox.path("sekisho.toml")).expect("a file");
        for (own, chosen) in &self.chosen {
            assert!(text.contains(own));
            text = text.replace(own, chosen);
        }
        self.sandbox.write_private("sekisho.toml", &text);
    }

    pub(crate) fn acme(&self, keys: &str) -> String {
        format!(
            "[acme]\ncas = [\"pebble\"]\nagree = true\naddresses = [\"127.0.0.1\"]\n\
             resolvers = [\"{}\"]\n{keys}\n\
             [acme.ca.pebble]\ndirectory = \"{}\"\nca = \"{}\"\n",
            self.resolver,
            self.directory,
            self.pebble.root().display()
        )
    }

    /// Makes a host with a page, without a certificate.
    pub(crate) fn host(&self, name: &str) {
        self.sandbox.page(name, &format!("page of {name}"));
        self.sandbox.ok(&["host", "set", name]);
    }

    /// Fetches the host's page as a client that trusts Pebble.
    pub(crate) fn visit(&self, server: &Server, name: &str) -> std::io::Result<String> {
        server.fetch_with(name, client::config_of(&self.issuer))
    }

    pub(crate) fn assert_served(&self, server: &Server, name: &str) {
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

/// What `init` says leads to a page, with the CA and the ports of this test.
#[test]
fn a_new_configuration_leads_to_a_page_without_files_of_certificates() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let sandbox = &fixture.sandbox;
    sandbox.ok(&["init", "new", "--state", "new", "--acme", "ops@example.com"]);
    let text = fs::read_to_string(sandbox.path("new/sekisho.toml")).expect("a file");
    let pages = format!("root = \"{}\"", sandbox.path("www/{host}").display());
    let own = |line: &str| {
        let begin = line.split_once(" = ").map_or(line, |(key, _)| key);
        match begin {
            "https" => fixture.chosen[0].1.clone(),
            "http" => fixture.chosen[1].1.clone(),
            "admin" => "admin = \"127.0.0.1:0\"".into(),
            "root" => pages.clone(),
            "cas" => {
                let resolver = fixture.resolver;
                format!("cas = [\"pebble\"]\nresolvers = [\"{resolver}\"]")
            }
            _ => line.to_owned(),
        }
    };
    let lines: Vec<_> = text.lines().map(own).collect();
    let ca = format!(
        "\n[acme.ca.pebble]\ndirectory = \"{}\"\nca = \"{}\"\n",
        fixture.directory,
        fixture.pebble.root().display()
    );
    sandbox.write("new/sekisho.toml", &(lines.join("\n") + &ca));
    let config = ["--config", "new/sekisho.toml"];
    sandbox.page("a.example", "page of a.example");
    sandbox.ok(&[&["host", "set", "a.example"], &config[..]].concat());
    sandbox.ok(&[&["check"], &config[..]].concat());
    let serve = [&["serve", "--log", "json"], &config[..]].concat();
    let server = Server::start(sandbox.command(&serve));
    fixture.assert_served(&server, "a.example");
    server.stop();
}

fn visit_first(fixture: &Fixture) {
    for (solver, key, name) in [
        ("tls-alpn-01", "p256", "a.example"),
        ("http-01", "rsa2048", "b.example"),
    ] {
        let keys = format!("solvers = [\"{solver}\"]\nkey = \"{key}\"");
        fixture.configure(&fixture.acme(&keys));
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

#[test]
fn a_server_answers_challenges_of_another_ones_order() {
    let fixture = Fixture::start("sqlite:hosts.db");
    fixture.configure("");
    fixture.host("a.example");
    let answering = fixture.sandbox.serve();
    fixture.sandbox.configure(&fixture.acme(""));
    let ordering = fixture.sandbox.serve();
    fixture.assert_served(&ordering, "a.example");
    until("the other one has it", SOON, || {
        fixture.visit(&answering, "a.example").is_ok()
    });
}

#[test]
fn the_ask_url_admits_names_without_a_record() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let endpoint = Endpoint::start(Speaks::Plain);
    endpoint.put("/check?domain=new.example", Answer::ok(""));
    endpoint.otherwise(Answer::status(404));
    let ask = endpoint.address;
    let keys = format!("first_access = \"ask\"\nask = \"http://{ask}/check\"");
    fixture.configure(&fixture.acme(&keys));
    // Makes the store.
    fixture.sandbox.import(&["imported.example"]);
    fixture.sandbox.page("new.example", "page of new.example");
    let server = fixture.sandbox.serve();
    fixture.assert_served(&server, "new.example");
    let refused = fixture.visit(&server, "other.example");
    let refused = refused.expect_err("it is not admitted").to_string();
    assert!(refused.contains("UnrecognisedName"), "{refused}");
    let listed = fixture
        .sandbox
        .json(&["host", "list", "--json"])
        .to_string();
    assert!(
        listed.contains("new.example") && !listed.contains("other.example"),
        "{listed}"
    );
}

#[test]
fn a_ca_out_of_reach_is_told_and_other_hosts_are_served() {
    let sandbox = Sandbox::new();
    sandbox.write("root.pem", &ca().root_pem());
    sandbox.configure(&ACME.replace("agree", "caa = false\nagree"));
    sandbox.import(&["imported.example"]);
    sandbox.page("imported.example", "page");
    sandbox.ok(&["host", "set", "a.example"]);
    let server = sandbox.serve();
    let refused = server.refusal("a.example");
    assert!(refused.contains("InternalError"), "{refused}");
    assert!(server.shows("imported.example", "page"));
    until("the log tells", SOON, || {
        server.log().contains("127.0.0.1:1: no connection")
    });
    server.stop();
}

#[test]
fn a_visit_waits_as_long_as_configured() {
    let sandbox = Sandbox::new();
    sandbox.write("root.pem", &ca().root_pem());
    // A CA that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let acme = ACME.replace("127.0.0.1:1", &address);
    sandbox.configure(&acme.replace("agree", "handshake_timeout = \"1s\"\ncaa = false\nagree"));
    sandbox.ok(&["host", "set", "a.example"]);
    let server = sandbox.serve();
    let begun = Instant::now();
    let refused = server.refusal("a.example");
    let waited = begun.elapsed();
    assert!(refused.contains("InternalError"), "{refused}");
    // A server that did not know the key would wait for 20 s.
    assert!((1..8).contains(&waited.as_secs()), "{waited:?}");
    server.stop();
}

#[test]
fn what_is_due_is_ordered_without_a_visit() {
    let fixture = Fixture::start("sqlite:hosts.db");
    fixture.configure(&fixture.acme("first_access = \"off\""));
    fixture.host("a.example");
    let runtime = Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let pattern = HostPattern::parse("a.example").expect("a name");
        let mut lineage = Lineage::new(Tenant::default(), [pattern]).expect("one name");
        lineage.due = Some(Clock::System.now());
        let put = Write::PutLineage(lineage, Fence::Absent);
        let written = sealer(&fixture.sandbox).await.write(vec![put]).await;
        written.expect("it is written");
    });
    let server = fixture.sandbox.serve();
    until("its certificate", SOON, || {
        fixture.visit(&server, "a.example").is_ok()
    });
    fixture.assert_served(&server, "a.example");
}
