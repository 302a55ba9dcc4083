//! Tests that a session of one server is resumed on the others.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use super::*;
use crate::curl_openssl::openssl;
use crate::sandbox::Ran;

const VERSIONS: [&str; 2] = ["-tls1_2", "-tls1_3"];

/// Client that stores one session in a file.
struct Client<'a> {
    folder: &'a Sandbox,
    version: &'a str,
}

impl Client<'_> {
    fn file(&self) -> String {
        let file = self.folder.path("session.pem");
        file.to_str().expect("UTF-8").to_owned()
    }

    /// Makes a full handshake and stores its session.
    fn meets(&self, server: &Server, host: &str) {
        let ran = self.visit(server, host, &["-sess_out", &self.file()]);
        assert!(ran.out.contains("New, TLSv1"), "{}{}", ran.out, ran.err);
    }

    /// Returns whether the server resumes the stored session.
    fn resumes(&self, server: &Server, host: &str) -> bool {
        let ran = self.visit(server, host, &["-sess_in", &self.file()]);
        let reused = ran.out.contains("Reused, TLSv1");
        let whole = ran.out.contains("New, TLSv1");
        assert!(reused != whole, "{}{}", ran.out, ran.err);
        reused
    }

    fn visit(&self, server: &Server, host: &str, session: &[&str]) -> Ran {
        let named = ["-servername", host, self.version];
        openssl(server.https, &[&named, session].concat())
    }
}

#[test]
fn a_session_is_resumed_on_every_server_and_for_its_host_alone() {
    let rig = Rig::new();
    let [one, two, three] = &rig.machines;
    // Both hosts share certificate and tenant: only the names differ.
    let pair = import(&one.sandbox, &["a.example", "b.example"]);
    rig.all_show("a.example", &pair);
    rig.all_show("b.example", &pair);
    share_keys(&rig);
    for version in VERSIONS {
        let client = Client {
            folder: &one.sandbox,
            version,
        };
        client.meets(&one.server, "a.example");
        for machine in [two, three] {
            assert!(client.resumes(&machine.server, "a.example"), "{version}");
            assert!(!client.resumes(&machine.server, "b.example"), "{version}");
        }
    }
    rig.stop();
}

#[test]
fn a_session_ends_with_the_tls_policy_and_the_tenant() {
    let rig = Rig::new();
    let [one, two, three] = &rig.machines;
    let pair = import(&one.sandbox, &["a.example"]);
    rig.all_show("a.example", &pair);
    share_keys(&rig);
    let client = Client {
        folder: &one.sandbox,
        version: "-tls1_3",
    };
    for change in [["--min-tls", "1.3"], ["--tenant", "other"]] {
        client.meets(&one.server, "a.example");
        assert!(client.resumes(&two.server, "a.example"));
        let args = [&["host", "set", "a.example"], &change[..]].concat();
        three.sandbox.ok(&args);
        for machine in &rig.machines {
            until("a whole handshake", ARRIVES, || {
                !client.resumes(&machine.server, "a.example")
            });
        }
    }
    rig.stop();
}

/// A writer that locks the change counter keeps the first server from making keys.
#[test]
fn another_server_makes_the_keys_when_one_is_killed_over_it() {
    let database = Postgres::shared();
    let url = database.database();
    let name = crate::postgres::name_of(&url);
    let sandboxes = prepared([&url, &url, &url]);
    let pair = import(&sandboxes[0], &["a.example"]);
    let count = |rows: &str| {
        let sql = format!("SELECT count(*) FROM {rows}");
        database.sql(name, &sql).trim().to_owned()
    };
    let keys = || count("sekisho.documents WHERE kind = 'ticket-keys'");
    let waits = format!("pg_stat_activity WHERE datname = '{name}' AND wait_event_type = 'Lock'");
    let mut writer = Writer::begin(database, name);
    until("the counter is held", HEALS, || {
        let sql = "SELECT number FROM sekisho.meta FOR UPDATE SKIP LOCKED";
        database.sql(name, sql).trim().is_empty()
    });
    let [one, two, three] = sandboxes;
    let killed = Machine::start(one);
    until("it waits to write keys", HEALS, || count(&waits) != "0");
    let Machine { sandbox, server } = killed;
    // SIGKILL: the server finishes nothing.
    drop(server);
    writer.end();
    assert_eq!(keys(), "0");
    let rest = [two, three].map(Machine::start);
    until("keys are made", ARRIVES, || keys() == "1");
    let [two, three] = rest;
    let client = Client {
        folder: &sandbox,
        version: "-tls1_3",
    };
    assert!(shows(&three.server, "a.example", &pair));
    until("the keys are shared", HEALS, || {
        client.meets(&two.server, "a.example");
        client.resumes(&three.server, "a.example")
    });
    two.server.stop();
    three.server.stop();
}

/// Waits until all servers have the same ticket keys. A server that starts
/// before there are keys soon reads them again.
fn share_keys(rig: &Rig) {
    let [one, two, three] = &rig.machines;
    let client = Client {
        folder: &one.sandbox,
        version: "-tls1_3",
    };
    for machine in [two, three] {
        until("the keys are shared", HEALS, || {
            client.meets(&one.server, "a.example");
            client.resumes(&machine.server, "a.example")
        });
    }
}

/// Other program that locks the change counter in an open transaction.
struct Writer(Child);

impl Writer {
    fn begin(database: &Postgres, name: &str) -> Self {
        let mut psql = Command::new("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", &database.url(name)]);
        psql.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = psql.spawn().expect("psql; see 'make deps'");
        let stdin = child.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "BEGIN; UPDATE sekisho.meta SET number = number;").expect("it reads");
        Self(child)
    }

    /// Ends psql, which rolls the transaction back.
    fn end(&mut self) {
        drop(self.0.stdin.take());
        let status = self.0.wait().expect("it is a child");
        assert!(status.success(), "{status}");
    }
}
