//! Tests `sekisho store upgrade` on stores as an older version leaves them.

use std::process::{Child, Stdio};
use std::time::Duration;

use rusqlite::Connection;
use sekisho_testkit::services::Postgres;

use crate::postgres::{self, name_of};
use crate::sandbox::{SOON, Sandbox, until};

/// Store in a file, or in a database.
struct Store {
    sandbox: Sandbox,
    url: Option<String>,
}

impl Store {
    /// Makes a store of each kind with a host and its certificate, a page, and hosts below
    /// `bulk.example`.
    fn each(hosts: u32) -> [Self; 2] {
        let url = Postgres::shared().database();
        let stores = [(Sandbox::new(), None), (postgres::sandbox(&url), Some(url))];
        stores.map(|(sandbox, url)| {
            sandbox.import(&["a.example"]);
            sandbox.page("a.example", "page of a");
            let store = Self { sandbox, url };
            store.age(hosts);
            store
        })
    }

    /// Leaves the tables as the step to version 5 does: without indexes and names.
    fn age(&self, hosts: u32) {
        let schema = self.url.as_ref().map_or("", |_| "sekisho.");
        let drops = INDEXES.map(|index| format!("DROP INDEX {schema}{index};"));
        let rest = format!(
            "UPDATE {schema}hosts SET reversed = NULL;
            INSERT INTO {schema}hosts (pattern, parent, tenant, tls, disabled, version)
            WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {hosts})
            SELECT 'h' || n || '.bulk.example', 'bulk.example', 'anna', '1.2', false, 1 FROM n"
        );
        let text = drops.concat() + &rest;
        match &self.url {
            Some(url) => drop(Postgres::shared().sql(name_of(url), &text)),
            None => {
                let file = Connection::open(self.sandbox.path("hosts.db")).expect("a store");
                file.execute_batch(&text).expect("it is written");
            }
        }
    }

    fn begin_upgrade(&self) -> Child {
        let mut command = self.sandbox.command(&["store", "upgrade"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("it runs")
    }
}

#[test]
fn lists_say_what_they_need_until_the_store_is_upgraded() {
    for Store { sandbox, .. } in Store::each(3) {
        for (args, index) in [
            (&["host", "list", "--tenant", "anna"][..], "hosts_by_tenant"),
            (
                &["host", "list", "--under", "bulk.example"],
                "hosts_by_name",
            ),
            (&["host", "list", "--suspended"], "hosts_suspended"),
            (&["cert", "list", "--expired"], "credentials_by_end"),
            (&["tenant", "list"], "hosts_by_tenant"),
        ] {
            let error = sandbox.fails(args);
            let needs = format!("this list needs the index {index}; 'sekisho store upgrade'");
            assert!(error.contains(&needs), "{args:?}: {error}");
        }
        assert_eq!(sandbox.ok(&["host", "list"]).lines().count(), 4);
        let upgraded = sandbox.ok(&["store", "upgrade"]);
        let begin = "4 hosts: names for --under stored\nbuilding hosts_by_tenant\n";
        assert!(upgraded.starts_with(begin), "{upgraded}");
        assert!(
            upgraded.ends_with("the store is complete: 9 indexes\n"),
            "{upgraded}"
        );
        let below = sandbox.ok(&["host", "list", "--under", "bulk.example", "--count"]);
        assert_eq!(below, "3\n");
        assert_eq!(sandbox.ok(&["tenant", "list"]), "-\nanna\n");
        let again = sandbox.ok(&["store", "upgrade"]);
        assert_eq!(again, "the store is complete: 9 indexes\n");
    }
}

#[test]
fn an_upgrade_is_taken_up_after_a_kill() {
    for store in Store::each(20_000) {
        for wait in [5, 20, 60, 150, 300] {
            let mut child = store.begin_upgrade();
            std::thread::sleep(Duration::from_millis(wait));
            child.kill().expect("it is a child");
            child.wait().expect("it is a child");
        }
        // PostgreSQL may build the index to its end.
        let upgrade = || store.sandbox.run(&["store", "upgrade"]).code == Some(0);
        until("the upgrade", SOON, upgrade);
        let below = ["host", "list", "--under", "bulk.example", "--count"];
        assert_eq!(store.sandbox.ok(&below), "20000\n");
        let of_tenant = ["host", "list", "--tenant", "anna", "--count"];
        assert_eq!(store.sandbox.ok(&of_tenant), "20000\n");
    }
}

#[test]
fn servers_serve_and_write_while_indexes_are_built() {
    for store in Store::each(50_000) {
        let sandbox = &store.sandbox;
        let server = sandbox.serve();
        let mut child = store.begin_upgrade();
        let mut rounds = 0;
        let status = loop {
            assert!(server.shows("a.example", "page of a"), "{}", server.log());
            let name = format!("r{rounds}.bulk.example");
            sandbox.ok(&["host", "set", &name, "--tenant", "berta"]);
            rounds += 1;
            if let Some(status) = child.try_wait().expect("it is a child") {
                break status;
            }
        };
        assert!(status.success(), "{status}");
        let of_tenant = ["host", "list", "--tenant", "berta", "--count"];
        assert_eq!(sandbox.ok(&of_tenant), format!("{rounds}\n"));
        server.stop();
    }
}

const INDEXES: [&str; 9] = [
    "hosts_by_tenant",
    "hosts_unnamed",
    "hosts_by_name",
    "hosts_without_certificate",
    "hosts_by_origin",
    "hosts_suspended",
    "credentials_by_end",
    "credentials_by_origin",
    "lineages_without_certificate",
];
