//! The columns of version 5 in a store of version 4, and the indexes of lists.

use std::pin::pin;
use std::time::Instant;

use super::super::lineages;
use super::super::list::translate;
use super::together::snapshot;
use super::*;
use crate::lists::{List, Value};
use crate::upgrade::complete;
use sekisho_certs::origin::Origin;
use sekisho_certs::record::Site;
use sekisho_certs::store::{CredentialFilter, HostFilter};
use sekisho_testkit::contract::fixture::{all_hosts, put_host, record};

/// Makes a database as version 4 had it.
fn version_4() -> String {
    let url = database();
    let made = [
        include_str!("version-1.sql"),
        include_str!("version-2.sql"),
        include_str!("version-3.sql"),
        include_str!("version-4.sql"),
    ];
    services::Postgres::shared().restore(name_of(&url), &made.concat());
    url
}

/// A dump reads a table for minutes: a migration that waited for it would hold up each
/// lookup that comes later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_gives_way_to_lookups() {
    let url = version_4();
    let holder = tokio_postgres::connect(&url, tokio_postgres::NoTls).await;
    let (holder, driver) = holder.unwrap();
    tokio::spawn(driver);
    let read = "BEGIN; SELECT count(*) FROM sekisho.hosts";
    holder.batch_execute(read).await.unwrap();
    let store = existing(&url);
    let begun = Instant::now();
    let error = store.head().await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("lock timeout"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(1));
    // Another session, as an older server's, reads on.
    let server = services::Postgres::shared();
    let hosts = server.sql(name_of(&url), "SELECT count(*) FROM sekisho.hosts");
    assert_eq!(hosts.trim(), "3");
    holder.batch_execute("COMMIT").await.unwrap();
    in_time(async {
        while store.head().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let version = server.sql(name_of(&url), "SELECT version FROM sekisho.meta");
    assert_eq!(version.trim(), "5");
}

#[tokio::test]
async fn an_older_programs_write_ends_the_origin_and_leaves_no_reversed_name() {
    let url = database();
    let store = create(&url);
    let mut host = record("a.shop.example", &[]);
    host.origin = Some(Origin::new("/srv"));
    host.suspended = Some(Site {
        format: 1,
        json: "{}".into(),
    });
    let batch = Batch::unchecked(vec![put_host(host.clone())]);
    store.write(batch).await.unwrap();
    // The statement by which a program of version 4 writes hosts.
    let put = "INSERT INTO sekisho.hosts (pattern, parent, tenant, site_format, site, tls,
            disabled, ecdsa, ed25519, rsa, version)
        SELECT * FROM (VALUES
            ('a.shop.example', 'shop.example', 'anna', NULL::bigint, NULL, '1.2', false,
                NULL::bigint, NULL::bigint, NULL::bigint, 7),
            ('b.shop.example', 'shop.example', 'anna', NULL, NULL, '1.2', false,
                NULL, NULL, NULL, 8)) AS made
        ON CONFLICT (pattern) DO UPDATE SET tenant = excluded.tenant,
            site_format = excluded.site_format, site = excluded.site, tls = excluded.tls,
            disabled = excluded.disabled, ecdsa = excluded.ecdsa, ed25519 = excluded.ed25519,
            rsa = excluded.rsa, version = excluded.version";
    let server = services::Postgres::shared();
    server.sql(name_of(&url), put);
    let listed = all_hosts(&store).await;
    assert_eq!(listed[0].origin, None);
    // That program serves the host on, and keeps what suspends it.
    assert_eq!(listed[0].suspended, host.suspended);
    let filter = HostFilter {
        under: Some(HostName::parse("shop.example").unwrap()),
        ..HostFilter::default()
    };
    let head = store.head().await.unwrap();
    let page = store.list_hosts(&filter, None, 9).await.unwrap();
    let patterns: Vec<_> = page.hosts.iter().map(|one| one.pattern.as_str()).collect();
    assert_eq!(patterns, ["a.shop.example", "b.shop.example"]);
    assert_eq!(page.hosts[1].version, 8);
    assert_eq!(store.head().await.unwrap(), head, "it is no change");
    let unnamed = "SELECT count(*) FROM sekisho.hosts WHERE reversed IS NULL";
    assert_eq!(server.sql(name_of(&url), unnamed).trim(), "0");
}

#[tokio::test]
async fn a_list_says_which_index_it_lacks() {
    let url = version_4();
    let store = existing(&url);
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
    assert_eq!(
        (said.len(), &*said[0]),
        (11, "3 hosts: names for --under stored")
    );
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

/// An index whose building broke off is there, and no list uses it.
#[tokio::test]
async fn a_broken_index_is_built_again() {
    let url = database();
    let store = create(&url);
    store.head().await.unwrap();
    let server = services::Postgres::shared();
    let broken = "UPDATE pg_index SET indisvalid = false
        WHERE indexrelid = 'sekisho.hosts_by_tenant'::regclass";
    server.sql(name_of(&url), broken);
    let error = store.tenants(None, 9).await.unwrap_err();
    assert!(error.to_string().contains("hosts_by_tenant"), "{error}");
    let mut said = Vec::new();
    complete(&store, &mut |text| said.push(text)).await.unwrap();
    let built = [
        "building hosts_by_tenant",
        "the store is complete: 9 indexes",
    ];
    assert_eq!(said, built);
    assert!(store.tenants(None, 9).await.unwrap().is_empty());
}

/// A transaction that began before an index holds up its end: for the time of a dump,
/// others read and write, and a second upgrade tells of the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_upgrades_do_not_disturb_each_other() {
    let url = version_4();
    let store = existing(&url);
    store.head().await.unwrap();
    let dump = snapshot(&url).await;
    let mut say = |_: String| {};
    let mut first = pin!(complete(&store, &mut say));
    let waits = tokio::time::timeout(Duration::from_secs(1), &mut first).await;
    assert!(waits.is_err(), "the snapshot is older");
    let second = complete(&store, &mut |_| {}).await;
    let error = second.unwrap_err().to_string();
    assert!(
        error.contains("another session builds the index"),
        "{error}"
    );
    assert!(finds(&store, "a.example").await);
    let batch = Batch::unchecked(vec![put_host(record("new.example", &[]))]);
    in_time(store.write(batch)).await.unwrap();
    drop(dump);
    in_time(first).await.unwrap();
}

/// A scan of the primary key that leaves out what the filter refuses would read the table.
#[tokio::test]
async fn each_list_uses_its_index() {
    let url = database();
    create(&url).head().await.unwrap();
    let server = services::Postgres::shared();
    let filled =
        "INSERT INTO sekisho.hosts (pattern, parent, tenant, tls, disabled, version, ecdsa,
            reversed, origin, origin_version, suspended)
        SELECT 'h' || n || '.example', 'example', 't' || n % 200, '1.2', false, n,
            CASE WHEN n % 200 > 0 THEN n END,
            CASE WHEN n % 200 > 1 THEN 'example.h' || n || '.' END,
            CASE WHEN n % 200 = 2 THEN '/srv' END, n,
            CASE WHEN n % 200 = 3 THEN '1 {}' END
        FROM generate_series(1, 20000) n;
        INSERT INTO sekisho.credentials (id, version, key_type, leaf, key_id, nonce, key,
            not_before, not_after, origin, origin_version)
        SELECT n, 1, 'ecdsa', '', 1, '', '', 0, n, CASE WHEN n % 200 = 2 THEN '/srv' END, 1
        FROM generate_series(1, 20000) n;
        INSERT INTO sekisho.lineages (name, tenant, names, turn, attempts, credential)
        SELECT 'h' || n || '.example', '', 'h' || n || '.example', 0, 0,
            CASE WHEN n % 200 > 0 THEN n END
        FROM generate_series(1, 20000) n;
        ANALYZE sekisho.hosts, sekisho.credentials, sekisho.lineages";
    server.sql(name_of(&url), filled);
    let mut lists: Vec<_> = lists::each()
        .iter()
        .map(|list| (list.index, translate(list), literals(list)))
        .collect();
    let text = lineages::LIST_WITHOUT.to_owned();
    lists.push(("lineages_without_certificate", text, "NULL, '', 100".into()));
    for (index, statement, values) in lists {
        let sql = format!("PREPARE it AS {statement}; EXPLAIN EXECUTE it ({values})");
        let plan = server.sql(name_of(&url), &sql);
        assert!(plan.contains(index), "{statement}\n{plan}");
        assert!(!plan.contains("Seq Scan on hosts"), "{statement}\n{plan}");
    }
}

/// Returns the parameters of a list as SQL.
pub(super) fn literals(list: &List) -> String {
    let values = list.values.iter().map(|value| match value {
        Value::Text(text) => format!("'{text}'"),
        Value::Number(number) => number.to_string(),
    });
    values.collect::<Vec<_>>().join(", ")
}
