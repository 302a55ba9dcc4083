//! Tests tenants, and what clients get from suspended hosts.

use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use rusqlite::Connection;
use rustls::pki_types::CertificateDer;
use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::client::TlsStream;

use crate::sandbox::{SOON, Sandbox, ca, until};

const PAGE: &str = "This site is suspended.\n";

/// Connection that stays open between requests.
struct Visit {
    stream: TlsStream<TcpStream>,
    runtime: Runtime,
    host: &'static str,
}

impl Visit {
    fn begin(https: SocketAddr, host: &'static str) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime");
        let connect = client::connect(https, host, client::config(ca()));
        let stream = runtime.block_on(connect).expect("a handshake");
        Self {
            stream,
            runtime,
            host,
        }
    }

    fn leaf(&self) -> CertificateDer<'static> {
        let chain = self.stream.get_ref().1.peer_certificates();
        chain.expect("a certificate")[0].clone().into_owned()
    }

    /// Sends a request, and tells whether the answer has this status and body.
    fn shows(&mut self, status: u16, body: &str) -> bool {
        let request = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        let mut answer = Vec::new();
        self.runtime.block_on(async {
            self.stream
                .write_all(request.as_bytes())
                .await
                .expect("it is open");
            self.stream.flush().await.expect("it is open");
            while !is_whole(&answer) {
                let read = self.stream.read_buf(&mut answer).await;
                assert_ne!(read.expect("an answer"), 0, "the connection ended");
            }
        });
        let answer = String::from_utf8(answer).expect("UTF-8");
        answer.starts_with(&format!("HTTP/1.1 {status} ")) && answer.ends_with(body)
    }
}

/// Tells whether as many bytes follow the head as it says.
fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    length.and_then(|length| length.parse().ok()) == Some(body.len())
}

/// Makes hosts with pages: two of anna's, and one of berta's.
fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    for (host, tenant) in [
        ("a.example", "anna"),
        ("b.example", "anna"),
        ("c.example", "berta"),
    ] {
        sandbox.import(&[host]);
        sandbox.page(host, "page");
        sandbox.ok(&["host", "set", host, "--tenant", tenant]);
    }
    sandbox
}

#[test]
fn a_suspended_tenant_gets_the_page_and_keeps_certificate_and_site() {
    let sandbox = filled();
    let server = sandbox.serve();
    let mut visits = ["a.example", "b.example"].map(|host| Visit::begin(server.https, host));
    let mut other = Visit::begin(server.https, "c.example");
    for visit in visits.iter_mut().chain([&mut other]) {
        assert!(visit.shows(200, "page"), "{}", server.log());
    }
    let before = visits[0].leaf();
    let said = sandbox.ok(&["tenant", "suspend", "anna"]);
    assert_eq!(said, "2 hosts suspended; hosts made later are not\n");
    for visit in &mut visits {
        until("the page", SOON, || visit.shows(503, PAGE));
        let mut new = Visit::begin(server.https, visit.host);
        assert!(new.shows(503, PAGE));
    }
    assert!(other.shows(200, "page"));
    // Port 80 leads to HTTPS as before.
    let plain = server.fetch_plain("a.example", "/");
    assert!(plain.starts_with("HTTP/1.1 308 "), "{plain}");
    let shown = sandbox.ok(&["host", "show", "a.example"]);
    assert!(shown.contains("\nsite      as [site]"), "{shown}");
    assert!(shown.contains("\nsuspended status 503, text "), "{shown}");
    let count = ["host", "list", "--suspended", "--tenant", "anna", "--count"];
    assert_eq!(sandbox.ok(&count), "2\n");

    // A renewed certificate is served, with the page.
    sandbox.import(&["a.example"]);
    until("the new certificate", SOON, || {
        Visit::begin(server.https, "a.example").leaf() != before
    });
    assert!(Visit::begin(server.https, "a.example").shows(503, PAGE));

    let again = sandbox.ok(&["tenant", "suspend", "anna"]);
    assert!(again.starts_with("0 hosts suspended"), "{again}");
    sandbox.write("unpaid.txt", "Call us.\n");
    let other_page = [
        "tenant",
        "suspend",
        "anna",
        "--status",
        "402",
        "--text",
        "unpaid.txt",
    ];
    let again = sandbox.ok(&other_page);
    assert!(again.starts_with("2 hosts suspended"), "{again}");
    until("the other page", SOON, || {
        visits[0].shows(402, "Call us.\n")
    });
    assert_eq!(
        sandbox.ok(&["tenant", "resume", "anna"]),
        "2 hosts resumed\n"
    );
    for visit in &mut visits {
        until("the site", SOON, || visit.shows(200, "page"));
    }
    server.stop();
}

#[test]
fn a_restart_and_host_set_do_not_lift_a_suspension() {
    let sandbox = filled();
    sandbox.ok(&["host", "suspend", "a.example"]);
    let server = sandbox.serve();
    assert!(Visit::begin(server.https, "a.example").shows(503, PAGE));
    // Another host of the tenant is served on.
    assert!(server.shows("b.example", "page"));
    sandbox.ok(&["host", "set", "a.example", "--status", "404"]);
    sandbox.ok(&["host", "set", "a.example", "--tenant", "berta"]);
    server.stop();
    let server = sandbox.serve();
    assert!(Visit::begin(server.https, "a.example").shows(503, PAGE));
    sandbox.ok(&["host", "resume", "a.example"]);
    let mut visit = Visit::begin(server.https, "a.example");
    until("the site", SOON, || visit.shows(404, "404 Not Found\n"));
    let error = sandbox.fails(&["host", "suspend", "none.example"]);
    assert!(error.contains("there is no host none.example"), "{error}");
    server.stop();
}

#[test]
fn a_suspension_of_many_goes_on_after_a_kill() {
    let sandbox = filled();
    let store = Connection::open(sandbox.path("hosts.db")).expect("a store");
    store.execute_batch(MANY).expect("it is written");
    let suspended = || {
        let text = "SELECT count(*) FROM hosts WHERE suspended IS NOT NULL";
        store
            .query_row(text, (), |row| row.get::<_, i64>(0))
            .expect("a number")
    };
    for wait in [20, 40, 60, 80, 100] {
        let mut command = sandbox.command(&["tenant", "suspend", "many"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it runs");
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
        assert_eq!(suspended() % 500, 0, "a page is whole or not at all");
    }
    sandbox.ok(&["tenant", "suspend", "many"]);
    assert_eq!(suspended(), 5000);
    sandbox.ok(&["tenant", "resume", "many"]);
    assert_eq!(suspended(), 0);
}

const MANY: &str = "
INSERT INTO hosts (pattern, parent, tenant, tls, disabled, version)
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
    SELECT 'h' || n || '.bulk.example', 'bulk.example', 'many', '1.2', 0, 1 FROM n;
";

#[test]
fn the_operator_is_suspended_only_if_that_is_meant() {
    let sandbox = filled();
    sandbox.ok(&["host", "set", "own.example"]);
    assert_eq!(sandbox.ok(&["tenant", "list"]), "-\nanna\nberta\n");
    let listed = sandbox.json(&["tenant", "list", "--json"]);
    assert_eq!(listed[0]["name"], "");
    assert_eq!(listed[2]["name"], "berta");
    sandbox.write("long.txt", &"x".repeat(4097));
    for (args, code, why) in [
        (&["tenant", "suspend", ""][..], 2, "'' is the operator"),
        (
            &["tenant", "suspend", "nobody"],
            1,
            "there are no hosts of \"nobody\"",
        ),
        (
            &["tenant", "suspend", "anna", "--status", "200"],
            2,
            "400..=599",
        ),
        (
            &["tenant", "suspend", "anna", "--text", "long.txt"],
            1,
            "more than 4096 bytes",
        ),
    ] {
        let ran = sandbox.run(args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.err);
        assert!(ran.err.contains(why), "{args:?}: {}", ran.err);
    }
    assert_eq!(sandbox.ok(&["host", "list", "--suspended"]), "");
    let all = sandbox.ok(&["tenant", "suspend", "", "--yes"]);
    assert!(all.starts_with("1 hosts suspended"), "{all}");
}
