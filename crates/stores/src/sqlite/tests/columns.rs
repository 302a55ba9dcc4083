//! The columns of version 5 in a file of version 4, and programs of both beside each other.

use rusqlite::types::Value;

use super::versions::version_4;
use super::*;
use crate::upgrade::complete;
use sekisho_certs::origin::Origin;
use sekisho_certs::record::Site;
use sekisho_certs::store::{CredentialFilter, HostFilter};
use sekisho_testkit::contract::fixture::{all_hosts, put_host, record};

/// `ALTER TABLE` would read each row of these tables, and refuse this one.
#[tokio::test]
async fn columns_are_added_without_reading_rows() {
    let folder = version_4();
    let raw = folder.raw();
    raw.execute_batch(WRONG_ROW).unwrap();
    let first = |text: &str| {
        raw.query_row(text, (), |row| row.get::<_, Value>(0))
            .unwrap()
    };
    let Value::Text(check) = first("PRAGMA quick_check(hosts)") else {
        panic!("it says what it found")
    };
    assert!(check.contains("non-INTEGER value"), "{check}");
    let store = folder.open().unwrap();
    assert!(finds(&store, "a.example").await);
    // The connection that was open reads on, and has the columns.
    let unnamed = first("SELECT count(*) FROM hosts WHERE reversed IS NULL");
    assert_eq!(unnamed, Value::Integer(4));
    raw.execute("DELETE FROM hosts WHERE pattern = 'wrong.example'", ())
        .unwrap();
    assert_eq!(first("PRAGMA integrity_check"), Value::Text("ok".into()));
    let new = Folder::new();
    drop(new.create());
    for table in ["hosts", "credentials"] {
        let columns = |folder: &Folder| -> String {
            let text = "SELECT group_concat(name || type || c.\"notnull\")
                FROM pragma_table_info(?1) c";
            let columns = folder.raw().query_row(text, [table], |row| row.get(0));
            columns.unwrap()
        };
        assert_eq!(columns(&folder), columns(&new));
    }
}

#[tokio::test]
async fn an_older_programs_write_ends_the_origin_and_leaves_no_reversed_name() {
    let folder = Folder::new();
    let store = folder.create();
    let mut host = record("a.shop.example", &[]);
    host.origin = Some(Origin::new("/srv"));
    host.suspended = Some(Site {
        format: 1,
        json: "{}".into(),
    });
    let batch = Batch::unchecked(vec![put_host(host.clone())]);
    store.write(batch).await.unwrap();
    let raw = folder.raw();
    for (number, name) in [(7, "a.shop.example"), (8, "b.shop.example")] {
        let none: Option<u64> = None;
        let values = rusqlite::params![
            name,
            "shop.example",
            "anna",
            none,
            none,
            "1.2",
            false,
            none,
            none,
            none,
            number
        ];
        assert_eq!(raw.execute(PUT_HOST_4, values).unwrap(), 1);
    }
    let listed = all_hosts(&store).await;
    assert_eq!(listed[0].origin, None);
    // That program serves the host on, and keeps what suspends it.
    assert_eq!(listed[0].suspended, host.suspended);
    let unnamed = "SELECT count(*) FROM hosts WHERE reversed IS NULL";
    let unnamed = || raw.query_row(unnamed, (), |row| row.get::<_, u64>(0));
    assert_eq!(unnamed().unwrap(), 1);
    let filter = HostFilter {
        under: Some(name("shop.example")),
        ..HostFilter::default()
    };
    let head = store.head().await.unwrap();
    let page = store.list_hosts(&filter, None, 9).await.unwrap();
    let patterns: Vec<_> = page.hosts.iter().map(|one| one.pattern.as_str()).collect();
    assert_eq!(patterns, ["a.shop.example", "b.shop.example"]);
    assert_eq!(unnamed().unwrap(), 0);
    assert_eq!(page.hosts[1].version, 8);
    assert_eq!(store.head().await.unwrap(), head, "it is no change");
}

#[tokio::test]
async fn a_list_says_which_index_it_lacks() {
    let folder = version_4();
    let store = folder.open().unwrap();
    let tenant = HostFilter {
        tenant: Some("anna".try_into().unwrap()),
        ..HostFilter::default()
    };
    let ends = CredentialFilter::Ends { from: 0, until: 1 };
    let refused = |error: StoreError, index: &str| {
        assert!(matches!(error, StoreError::Refused(_)), "{error}");
        let text = error.to_string();
        let wanted = format!("needs the index {index}; 'sekisho store upgrade' builds it");
        assert!(text.contains(&wanted), "{text}");
    };
    let listed = store.list_hosts(&tenant, None, 9).await;
    refused(listed.unwrap_err(), "hosts_by_tenant");
    refused(store.tenants(None, 9).await.unwrap_err(), "hosts_by_tenant");
    let listed = store.list_credentials(&ends, None, 9).await;
    refused(listed.unwrap_err(), "credentials_by_end");
    let listed = store.list_lineages(Listed::Without, None, 9).await;
    refused(listed.unwrap_err(), "lineages_without_certificate");
    // A list without a condition needs none.
    assert_eq!(all_hosts(&store).await.len(), 3);
    let mut said = Vec::new();
    complete(&store, &mut |text| said.push(text)).await.unwrap();
    assert_eq!(said.len(), 11);
    assert_eq!(said[0], "3 hosts: names for --under stored");
    assert_eq!(said[1], "building hosts_by_tenant");
    assert_eq!(said[10], "the store is complete: 9 indexes");
    said.clear();
    complete(&store, &mut |text| said.push(text)).await.unwrap();
    assert_eq!(said, ["the store is complete: 9 indexes"]);
    let listed = store.list_hosts(&tenant, None, 9).await.unwrap();
    assert!(listed.hosts.is_empty());
    assert_eq!(store.tenants(None, 9).await.unwrap(), [Tenant::default()]);
    store.list_credentials(&ends, None, 9).await.unwrap();
    let without = store.list_lineages(Listed::Without, None, 9).await;
    assert!(without.unwrap().is_empty());
}

/// Each list below a domain looks first for hosts without names.
#[test]
fn hosts_without_names_are_found_by_their_index() {
    let folder = Folder::new();
    drop(folder.create());
    let text = lists::unnamed(String::new()).text;
    let plan = format!("EXPLAIN QUERY PLAN {text}");
    let step = folder.raw().query_row(&plan, ("", 9), |row| row.get(3));
    let step: String = step.unwrap();
    assert!(step.contains("hosts_unnamed"), "{step}");
}

#[test]
fn lineages_without_a_certificate_are_found_by_their_index() {
    let folder = Folder::new();
    drop(folder.create());
    let plan = format!("EXPLAIN QUERY PLAN {}", lineages::LINEAGES_WITHOUT);
    let step = folder.raw().query_row(&plan, (0, "", 9), |row| row.get(3));
    let step: String = step.unwrap();
    assert!(step.contains("lineages_without_certificate"), "{step}");
}

/// The statement by which a program of version 4 writes a host.
const PUT_HOST_4: &str = "INSERT INTO hosts (pattern, parent, tenant, site_format, site, tls,
    disabled, ecdsa, ed25519, rsa, version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (pattern) DO UPDATE SET tenant = ?3, site_format = ?4, site = ?5, tls = ?6,
    disabled = ?7, ecdsa = ?8, ed25519 = ?9, rsa = ?10, version = ?11";

/// Adds a row whose version is no number, which a STRICT table does not take.
const WRONG_ROW: &str = "
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'STRICT, ', '') WHERE name = 'hosts';
PRAGMA writable_schema = RESET;
INSERT INTO hosts (pattern, tenant, tls, disabled, version)
    VALUES ('wrong.example', '', '1.2', 0, 'none');
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'WITHOUT ROWID', 'STRICT, WITHOUT ROWID')
    WHERE name = 'hosts';
PRAGMA writable_schema = RESET;
";
