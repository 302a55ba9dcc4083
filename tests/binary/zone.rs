//! Tests the zone that servers answer for: certificates by a CNAME into it, through a
//! resolver that follows the delegation, and questions during a hand-over.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use sekisho_testkit::services::{Knot, PebbleOptions, Unbound, Zone, free_ports};

use crate::acme::ACME;
use crate::first_access::Fixture;
use crate::handover::Handed;
use crate::sandbox::{SOON, Sandbox, Server, ca, needs, until};

/// Customer's zone at Knot, which delegates the served zone to two servers; a resolver of
/// both, and a CA that asks it.
pub(crate) struct AtZone {
    pub(crate) fixture: Fixture,
    knot: Knot,
    unbound: Unbound,
    ips: [Ipv4Addr; 2],
}

impl AtZone {
    /// Starts them; none if tests without the right to bind port 53 are left out: a
    /// delegation names no port.
    pub(crate) fn start() -> Option<Self> {
        let ips = [ip(), ip()];
        let can_bind = UdpSocket::bind((ips[0], PORT)).is_ok();
        needs("the right to bind port 53", can_bind).then(|| {
            let [one, two] = ips;
            let records = format!(
                "@ NS ns\nns A 127.0.0.1\ndcv NS ns.dcv\nns.dcv A {one}\nns.dcv A {two}\n\
                 shop A 192.0.2.1"
            );
            let key = ("hmac-sha256", "key", "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0");
            let zone = Zone {
                name: "test",
                records: &records,
                key: "key",
            };
            let knot = Knot::start(Ipv4Addr::LOCALHOST, &[key], &[zone]);
            let unbound = Unbound::start("test", knot.address());
            let options = PebbleOptions {
                resolver: Some(unbound.address()),
                ..PebbleOptions::default()
            };
            let at = Self {
                fixture: Fixture::with("sqlite:hosts.db", options),
                knot,
                unbound,
                ips,
            };
            at.configure();
            at
        })
    }

    /// Writes `sekisho.toml` with the first address, and `second.toml` with the second one.
    fn configure(&self) {
        let [one, two] = self.ips;
        let acme = self.fixture.acme("caa = false");
        self.fixture.configure(&format!(
            "{acme}[acme.dns.\"dcv.test\"]\nserve = [\"{one}:53\"]\n\
             name_servers = [\"{one}\", \"{two}\"]\n"
        ));
        let sandbox = &self.fixture.sandbox;
        let text = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
        let line = |line: &str| match line.split_once(" = ") {
            Some((key @ ("https" | "http"), _)) => format!("{key} = [\"127.0.0.1:0\"]\n"),
            Some(("serve", _)) => format!("serve = [\"{two}:53\"]\n"),
            _ => format!("{line}\n"),
        };
        let text: String = text.lines().map(line).collect();
        sandbox.write_private("second.toml", &text);
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.fixture.sandbox
    }

    /// Starts a server that answers at the second address.
    pub(crate) fn serve_second(&self) -> Server {
        let args = ["serve", "--log", "json", "--config", "second.toml"];
        Server::start(self.sandbox().command(&args))
    }

    /// Lets the command wait for the CNAME of `name`, which may stand for a wildcard and its
    /// parent; returns where it is to lead.
    pub(crate) fn wait(&self, names: &[&str], tenant: &str) -> String {
        let wait = ["cert", "issue", "--together", "--wait-for-cname", "1h"];
        let told = self
            .sandbox()
            .ok(&[&wait[..], &["--tenant", tenant], names].concat());
        let (record, target) = told.trim_end().split_once(" CNAME ").expect("one record");
        assert!(record.starts_with("set _acme-challenge."), "{told}");
        target.to_owned()
    }

    /// Sets the CNAME of a host's challenge.
    pub(crate) fn set_cname(&self, host: &str, target: &str) {
        let (name, target) = (format!("_acme-challenge.{host}."), format!("{target}."));
        let begun = self.knot.control(&["zone-begin", "test"]).status();
        assert!(begun.expect("knotc runs").success());
        // There may be one already.
        let unset = ["zone-unset", "test", &name, "CNAME"];
        self.knot.control(&unset).output().expect("knotc runs");
        for args in [
            &["zone-set", "test", &name, "60", "CNAME", &target][..],
            &["zone-commit", "test"],
        ] {
            let done = self.knot.control(args).status().expect("knotc runs");
            assert!(done.success(), "{args:?}: {}", self.knot.log());
        }
    }

    /// Returns the state of a host's certificate and what is wrong with it.
    pub(crate) fn state(&self, host: &str) -> (String, String) {
        let shown = self.sandbox().json(&["host", "show", host, "--json"]);
        let lineage = &shown["lineages"][0];
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        (
            text(&lineage["state"]),
            text(&lineage["last_error"]["text"]),
        )
    }

    /// Returns what the resolver wrote.
    pub(crate) fn log(&self) -> String {
        self.unbound.log()
    }
}

#[test]
fn a_wildcard_by_a_cname_on_two_servers() {
    let Some(at) = AtZone::start() else { return };
    let target = at.wait(&["shop.test", "*.shop.test"], "anna");
    assert!(target.starts_with("shop.test.") && target.ends_with(".dcv.test"));
    at.set_cname("shop.test", &target);
    let (one, two) = (at.sandbox().serve(), at.serve_second());
    until("the certificate", SOON, || {
        at.state("shop.test").0 == "scheduled"
    });
    for name in ["shop.test", "a.shop.test"] {
        at.sandbox().page(name, &format!("page of {name}"));
        at.fixture.assert_served(&one, name);
        at.fixture.assert_served(&two, name);
    }
    // Each answers for the orders of another process: the resolver asks both.
    let reads = || [&one, &two].map(|server| server.metric("sekisho_dns_reads_total"));
    let before = reads();
    until("both answered", SOON, || {
        at.sandbox().ok(&["cert", "renew", "shop.test"]);
        let now = reads();
        now[0] > before[0] && now[1] > before[1]
    });
    one.stop();
    two.stop();
}

/// Forged datagrams take the rate of the network that the CA's resolver is in.
#[test]
fn an_order_succeeds_while_the_resolver_is_forged() {
    let Some(at) = AtZone::start() else { return };
    let target = at.wait(&["*.shop.test"], "anna");
    at.set_cname("shop.test", &target);
    let server = at.sandbox().serve();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| flood((at.ips[0], PORT).into(), &is_over));
        let truncated = "sekisho_dns_questions_total{outcome=\"truncated\"}";
        until("the flood is told to come over TCP", SOON, || {
            server.metric(truncated) > Some(100.0)
        });
        let issued = at.sandbox().run(&["cert", "issue", "*.shop.test"]);
        is_over.store(true, Ordering::SeqCst);
        assert_eq!(issued.code, Some(0), "{}{}", issued.err, at.log());
    });
    server.stop();
}

/// Asks for texts a thousand times a second until it is over, a minute at most, from the
/// resolver's network.
fn flood(server: SocketAddr, is_over: &AtomicBool) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    let head = [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    let question = [&head[..], b"\x01a\x03dcv\x04test\x00\x00\x10\x00\x01"].concat();
    for _ in 0..60_000 {
        if is_over.load(Ordering::SeqCst) {
            break;
        }
        // Nobody reads the answers.
        let _ = socket.send_to(&question, server);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn kdig_sees_the_zone() {
    let [port] = free_ports();
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sandbox.write("root.pem", &ca().root_pem());
    sandbox.configure(&format!(
        "{ACME}[acme.dns.\"dcv.test\"]\nserve = [\"127.0.0.1:{port}\"]\n"
    ));
    let server = sandbox.serve();
    for (question, expected) in [
        (
            &["SOA", "dcv.test"][..],
            "ns.dcv.test. hostmaster.dcv.test. 1 3600",
        ),
        (&["NS", "dcv.test"], "ns.dcv.test."),
        (&["A", "ns.dcv.test"], "127.0.0.1"),
        (&["TXT", "a.b.dcv.test"], "status: NOERROR"),
        (&["TXT", "a.b.dcv.test", "+tcp"], "status: NOERROR"),
        (&["MX", "a.b.dcv.test"], "ANSWER: 0; AUTHORITY: 1"),
        (&["ANY", "dcv.test"], "status: REFUSED"),
        (&["A", "example.org"], "status: REFUSED"),
    ] {
        let kdig = Command::new("kdig")
            .args(["@127.0.0.1", "-p", &port.to_string()])
            .args(question)
            .output()
            .expect("kdig; install knot-dnsutils, or run `make deps`");
        let out = String::from_utf8_lossy(&kdig.stdout);
        assert!(out.contains(expected), "{question:?}: {out}");
    }
    assert!(server.metric("sekisho_dns_questions_total{outcome=\"refused\"}") >= Some(2.0));
    server.stop();
}

#[test]
fn an_address_that_is_taken_is_told() {
    let [port] = free_ports();
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port");
    let sandbox = Sandbox::new();
    sandbox.import(&["a.example"]);
    sandbox.write("root.pem", &ca().root_pem());
    sandbox.configure(&format!(
        "{ACME}[acme.dns.\"dcv.test\"]\nserve = [\"127.0.0.1:{port}\"]\n"
    ));
    let error = sandbox.fails(&["serve"]);
    assert!(
        error.contains(&format!("can't listen on 127.0.0.1:{port}")),
        "{error}"
    );
    drop(taken);
}

#[test]
fn a_hand_over_loses_no_question() {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path().join("root.pem");
    fs::write(&root, ca().root_pem()).expect("a file");
    let acme = ACME.replace("root.pem", &root.display().to_string());
    let [port] = free_ports();
    let more = format!("{acme}[acme.dns.\"dcv.test\"]\nserve = [\"127.0.0.1:{port}\"]\n");
    let handed = Handed::start(&more);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = scope.spawn(|| ask((Ipv4Addr::LOCALHOST, port).into(), &is_over));
        for generation in 2..4 {
            handed.reload(generation, "", &more);
        }
        is_over.store(true, Ordering::SeqCst);
        let answered = asking.join().expect("each question is answered");
        assert!(answered >= 100, "{answered} questions");
    });
}

/// Asks for the address of the name server until it is over; each question must be answered.
fn ask(server: SocketAddr, is_over: &AtomicBool) -> usize {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
    socket.connect(server).expect("an address");
    let timeout = Some(Duration::from_secs(5));
    socket.set_read_timeout(timeout).expect("a time");
    let mut asked = 0;
    // 30 a second: a network has 50.
    while !is_over.load(Ordering::SeqCst) || asked < 100 {
        let [high, low] = u16::try_from(asked).expect("few").to_be_bytes();
        let head = [high, low, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        let question = [&head[..], b"\x02ns\x03dcv\x04test\x00\x00\x01\x00\x01"].concat();
        socket.send(&question).expect("it is sent");
        let mut answer = [0; 512];
        let length = socket.recv(&mut answer).expect("an answer");
        // One answer, of 16 bytes: a pointer to the name, and an address.
        assert_eq!(
            (&answer[..2], length),
            (&question[..2], question.len() + 16)
        );
        asked += 1;
        thread::sleep(Duration::from_millis(33));
    }
    asked
}

/// Returns an address of loopback for one name server of one test process.
fn ip() -> Ipv4Addr {
    static NEXT: AtomicU8 = AtomicU8::new(153);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, NEXT.fetch_add(1, Ordering::SeqCst), high, low)
}

const PORT: u16 = 53;
