//! Tests certificates by DNS-01: the records are written in each way to a real name
//! server.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use sekisho_testkit::services::{Knot, PebbleOptions, Zone};
use sekisho_testkit::{Answer, Endpoint, Speaks};
use serde_json::Value;

use crate::first_access::Fixture;
use crate::refused_settings::line_of;
use crate::sandbox::{SOON, needs, until};

/// Name server of a zone, and a CA that asks it.
struct AtKnot {
    knot: Knot,
    fixture: Fixture,
}

impl AtKnot {
    /// Starts both; none if tests without the right to bind port 53 are left out.
    /// Authoritative servers are asked at that port.
    fn start() -> Option<Self> {
        let ip = ip();
        Self::with(ip, ip)
    }

    /// Starts both; the zone says that its name server is at `told`.
    fn with(ip: Ipv4Addr, told: Ipv4Addr) -> Option<Self> {
        let can_bind = UdpSocket::bind((ip, PORT)).is_ok();
        needs("the right to bind port 53", can_bind).then(|| {
            let knot = knot(ip, told);
            let fixture = Fixture::with(
                "sqlite:hosts.db",
                PebbleOptions {
                    resolver: Some(knot.address()),
                    ..PebbleOptions::default()
                },
            );
            Self { knot, fixture }
        })
    }

    /// Configures how records of the zone are written.
    fn configure(&self, way: &str) {
        // The name server knows no zone above its own.
        let acme = self.fixture.acme("caa = false");
        let zone = format!("{acme}[acme.dns.\"{ZONE}\"]\n{way}\n");
        self.fixture.configure(&zone);
    }

    /// Makes a wildcard host, and visits a name below it first.
    fn visit_first(&self) {
        let name = format!("a.w.{ZONE}");
        let sandbox = &self.fixture.sandbox;
        sandbox.page(&name, &format!("page of {name}"));
        sandbox.ok(&["host", "set", &format!("*.w.{ZONE}")]);
        let server = sandbox.serve();
        self.fixture.assert_served(&server, &name);
        until("the record is removed", SOON, || {
            !self.knot.has_txt(ZONE, RECORD)
        });
        server.stop();
    }
}

#[test]
fn a_wildcard_and_its_parent_are_ordered_by_signed_updates() {
    let Some(at) = AtKnot::start() else { return };
    let sandbox = &at.fixture.sandbox;
    sandbox.write_private("tsig", &format!("hmac-sha256:acme:{SECRET}"));
    let server = at.knot.address().ip();
    at.configure(&format!("rfc2136 = \"{server}\"\ntsig = \"file:tsig\""));
    let (parent, wildcard) = (format!("w.{ZONE}"), format!("*.w.{ZONE}"));
    let out = sandbox.ok(&["cert", "issue", &parent, &wildcard, "--together"]);
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(!at.knot.has_txt(ZONE, RECORD), "the records are removed");
    let server = sandbox.serve();
    for name in [parent, format!("a.w.{ZONE}")] {
        sandbox.page(&name, &format!("page of {name}"));
        at.fixture.assert_served(&server, &name);
    }
    server.stop();
}

#[test]
fn the_first_visit_below_a_wildcard_orders_it_by_a_program() {
    let Some(at) = AtKnot::start() else { return };
    let sandbox = &at.fixture.sandbox;
    let control = |args: &[&str]| {
        let command = at.knot.control(args);
        let args = command.get_args().map(|arg| arg.to_str().expect("a text"));
        let args: Vec<_> = args.collect();
        let program = command.get_program().to_str().expect("a text");
        format!("{program} {}", args.join(" "))
    };
    let change = |action: &str, with: &str| {
        control(&[action, ZONE, "\"$2\"", with, "TXT", "\"\\\"$3\\\"\""])
    };
    let script = format!(
        "#!/bin/bash\nset -e\ngrep -h SigBlk /proc/self/status >masks\n\
         echo \"$1 $2\" >>'{said}'\n{begin}\n\
         case $1 in present) {present};; cleanup) {cleanup};; esac\n{commit}\n",
        said = sandbox.path("said").display(),
        begin = control(&["zone-begin", ZONE]),
        present = change("zone-set", "60"),
        cleanup = change("zone-unset", ""),
        commit = control(&["zone-commit", ZONE]),
    );
    sandbox.write("dns", &script);
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(sandbox.path("dns"), mode).expect("ours");
    at.configure("exec = \"dns\"");
    at.visit_first();
    let said = fs::read_to_string(sandbox.path("said")).expect("it was called");
    assert_eq!(said, format!("present {RECORD}\ncleanup {RECORD}\n"));
    // The server's own threads hold signals back, but for one; a program does not.
    let masks = fs::read_to_string(sandbox.path("masks")).expect("it was called");
    assert_eq!(masks, "SigBlk:\t0000000000000000\n");
}

#[test]
fn the_first_visit_below_a_wildcard_orders_it_by_a_webhook() {
    let Some(at) = AtKnot::start() else { return };
    let endpoint = Endpoint::start(Speaks::Plain);
    endpoint.otherwise(Answer::status(204));
    at.fixture.sandbox.write_private("password", "pass:word");
    at.configure(&format!(
        "webhook = \"http://{}\"\nuser = \"user\"\npassword = \"file:password\"",
        endpoint.address
    ));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| apply(&endpoint, &at.knot, &is_over));
        let _over = Over(&is_over);
        at.visit_first();
    });
    let asked = endpoint.asked();
    let targets: Vec<_> = asked.iter().map(|asked| asked.target.as_str()).collect();
    assert_eq!(targets, ["/present", "/cleanup"]);
    for asked in asked {
        assert_eq!(asked.fields["authorization"], "Basic dXNlcjpwYXNzOndvcmQ=");
    }
}

#[test]
fn a_wrong_key_of_updates_is_told() {
    let Some(at) = AtKnot::start() else { return };
    let sandbox = &at.fixture.sandbox;
    let server = at.knot.address().ip();
    at.configure(&format!("rfc2136 = \"{server}\"\ntsig = \"file:tsig\""));
    for (key, expected) in [
        ("acme:d3Jvbmc=", "key acme.: the secret"),
        ("other:d3Jvbmc=", "key other.: the server knows no"),
    ] {
        sandbox.write_private("tsig", key);
        let ran = sandbox.run(&["cert", "issue", &format!("*.w.{ZONE}")]);
        assert_eq!(ran.code, Some(1), "{}", ran.err);
        let failed = format!(
            "failed: *.w.{ZONE}: dns-01: {RECORD}: rfc2136 {server}:53: zone {ZONE}., {expected}"
        );
        assert!(ran.err.contains(&failed), "{}", ran.err);
        let line = line_of(sandbox, "tsig = ");
        let hint = format!("{line}: [acme] dns.\"{ZONE}\".tsig: rfc2136 {server}:53: ");
        assert!(ran.err.contains(&hint), "{}", ran.err);
        assert!(!ran.err.contains("d3Jvbmc"), "{}", ran.err);
    }
}

/// As with a hidden primary, or a firewall for port 53.
#[test]
fn other_servers_are_asked_for_the_record_or_none() {
    let Some(at) = AtKnot::with(ip(), ip()) else {
        return;
    };
    let sandbox = &at.fixture.sandbox;
    sandbox.write_private("tsig", &format!("hmac-sha256:acme:{SECRET}"));
    let server = at.knot.address().ip();
    let configure = |keys: &str| {
        at.configure(&format!(
            "rfc2136 = \"{server}\"\ntsig = \"file:tsig\"\n{keys}"
        ));
    };
    let name = format!("*.w.{ZONE}");
    let issue = ["cert", "issue", &name];
    configure("propagation_timeout = \"1s\"");
    let ran = sandbox.run(&issue);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let why =
        format!("{RECORD}: after 1 s, 0 of 1 authoritative servers have the record: ns.{ZONE}");
    assert!(ran.err.contains(&why), "{}", ran.err);
    for keys in [
        format!("servers = [\"{server}\"]"),
        "check = false\npropagation_timeout = \"1s\"".into(),
    ] {
        configure(&keys);
        let out = sandbox.ok(&issue);
        assert!(out.ends_with(&format!("  {name}\n")), "{keys}: {out}");
    }
}

/// Ends the webhook's work with the test, also if that panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Does what a webhook is told, until the test is over.
fn apply(endpoint: &Endpoint, knot: &Knot, is_over: &AtomicBool) {
    let mut done = 0;
    while !is_over.load(Ordering::SeqCst) {
        for asked in endpoint.asked().into_iter().skip(done) {
            let body: Value = serde_json::from_str(&asked.body).expect("JSON");
            let text = |key: &str| body[key].as_str().expect("a text").to_owned();
            let (fqdn, value) = (text("fqdn"), text("value"));
            match asked.target.as_str() {
                "/present" => knot.add_txt(ZONE, &fqdn, &value),
                _ => knot.remove_txt(ZONE, &fqdn, &value),
            }
            done += 1;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Returns an address of loopback for one name server of one test process.
fn ip() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(53);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, NEXT.fetch_add(1, Ordering::SeqCst), high, low)
}

/// Starts a name server.
fn knot(ip: Ipv4Addr, told: Ipv4Addr) -> Knot {
    let records = format!("@ NS ns\nns A {told}\nw A 127.0.0.1\n*.w A 127.0.0.1");
    let zone = Zone {
        name: ZONE,
        records: &records,
        key: "acme",
    };
    Knot::start_at(ip, Some(PORT), &[("hmac-sha256", "acme", SECRET)], &[zone])
}

const PORT: u16 = 53;
const ZONE: &str = "example.test";
const RECORD: &str = "_acme-challenge.w.example.test.";
const SECRET: &str = "c2VjcmV0IG9mIHRoZSB0ZXN0cyB0aGF0IGlzIGxvbmcgZW5vdWdo";
