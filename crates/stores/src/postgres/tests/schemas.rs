use super::super::schema::migrate;
use super::*;
use sekisho_certs::lineage::Fence;
use sekisho_certs::record::{Site, Tenant};
use sekisho_certs::store::{LogPosition, Write};
use sekisho_testkit::contract::fixture::{all_hosts, client_ca, pattern, put_host, record};

#[tokio::test]
async fn a_server_makes_no_store() {
    let url = database();
    let parsed = Url::parse(&url, Path::new("/")).unwrap();
    assert!(
        !Postgres::is_there(&parsed, &Handle::current())
            .await
            .unwrap()
    );
    let error = existing(&url).head().await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.contains("there is no store") && text.contains("127.0.0.1"),
        "{text}"
    );
    assert!(!text.contains("correct-horse"), "{text}");
    create(&url).head().await.unwrap();
    assert!(
        Postgres::is_there(&parsed, &Handle::current())
            .await
            .unwrap()
    );
    existing(&url).head().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_that_make_it_at_once_make_one() {
    let url = database();
    let stores = [(); 6].map(|()| Arc::new(create(&url)));
    let ids = stores
        .clone()
        .map(|store| tokio::spawn(async move { store.id().await.unwrap() }));
    let mut seen = Vec::new();
    for id in ids {
        seen.push(id.await.unwrap());
    }
    assert!(seen.iter().all(|id| *id == seen[0]), "{seen:?}");
    stores[0]
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    assert!(finds(&stores[5], "a.example").await);
}

#[tokio::test]
async fn a_newer_store_is_refused_unless_it_takes_this_version() {
    let url = database();
    create(&url)
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let server = services::Postgres::shared();
    server.sql(
        name_of(&url),
        "UPDATE sekisho.meta SET version = 99;
         ALTER TABLE sekisho.hosts ADD COLUMN later integer NOT NULL DEFAULT 7",
    );
    let store = existing(&url);
    store
        .write(Batch::unchecked(host_with("b.example", 2, sealed)))
        .await
        .unwrap();
    assert!(finds(&store, "a.example").await);
    server.sql(name_of(&url), "UPDATE sekisho.meta SET compatible = 98");
    for mode in [Mode::Existing, Mode::Create] {
        let error = open(&url, mode, &Options::default()).head().await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("schema version 99")
                && error.contains("98 or newer, and this one has 5"),
            "{error}"
        );
    }
    let hosts = server.sql(name_of(&url), "SELECT count(*) FROM sekisho.hosts");
    assert_eq!(hosts.trim(), "2");
}

/// Programs of version 3 that know no client CA take the words 1.2 and 1.3, and refuse
/// each other text: they must not serve such a host without client certificates.
#[tokio::test]
async fn a_policy_with_a_client_ca_is_no_word_of_an_older_program() {
    let url = database();
    let store = create(&url);
    let mut host = record("a.example", &[]);
    host.tls.client_ca = Some(client_ca(1));
    let writes = vec![put_host(host)];
    store.write(Batch::unchecked(writes)).await.unwrap();
    let sql = |sql| services::Postgres::shared().sql(name_of(&url), sql);
    let text = sql("SELECT tls FROM sekisho.hosts");
    assert!(text.starts_with("1.2 client-ca\n-----BEGIN"), "{text}");
    // This program refuses what a later one may add.
    sql("UPDATE sekisho.hosts SET tls = '1.2 later'");
    let error = store.find(&name("a.example")).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("a.example: its TLS policy is not known"),
        "{text}"
    );
}

/// Other programs may write any number, and a format without a document.
#[tokio::test]
async fn a_site_of_no_format_fails_no_list() {
    let url = database();
    let store = create(&url);
    let writes = ["a.example", "b.example"].map(|name| put_host(record(name, &[])));
    store.write(Batch::unchecked(writes.into())).await.unwrap();
    let server = services::Postgres::shared();
    for (set, format) in [
        ("site_format = -1, site = '{}'", Site::NO_FORMAT),
        ("site_format = 5000000000, site = '{}'", Site::NO_FORMAT),
        ("site_format = 2, site = NULL", 2),
    ] {
        let set = format!("UPDATE sekisho.hosts SET {set} WHERE pattern = 'a.example'");
        server.sql(name_of(&url), &set);
        let hosts = all_hosts(&store).await;
        let formats = hosts.iter().map(|host| Some(host.site.as_ref()?.format));
        assert_eq!(formats.collect::<Vec<_>>(), [Some(format), None], "{set}");
    }
}

/// Other programs and later versions may write any policy and tenant.
#[tokio::test]
async fn a_record_that_can_not_be_read_fails_no_list() {
    let url = database();
    let store = create(&url);
    let writes = ["a.example", "b.example"].map(|name| put_host(record(name, &[])));
    store.write(Batch::unchecked(writes.into())).await.unwrap();
    let server = services::Postgres::shared();
    for set in ["tls = '1.4'", "tls = '1.3', tenant = chr(7)"] {
        let set = format!("UPDATE sekisho.hosts SET {set} WHERE pattern = 'a.example'");
        server.sql(name_of(&url), &set);
        let hosts = all_hosts(&store).await;
        let unreadable: Vec<_> = hosts.iter().map(|host| host.unreadable.is_some()).collect();
        assert_eq!(unreadable, [true, false], "{set}");
        let put = put_host(hosts[0].clone());
        let refused = store.write(Batch::unchecked(vec![put])).await.unwrap_err();
        assert!(
            refused.to_string().contains("host a.example: "),
            "{refused}"
        );
        assert!(finds(&store, "b.example").await);
        let name = HostName::parse("a.example").unwrap();
        assert!(store.find(&name).await.is_err(), "{set}");
    }
    let error = store.tenants(None, 9).await.unwrap_err().to_string();
    assert!(error.contains(r#"the tenant "\u{7}": "#), "{error}");
}

#[tokio::test]
async fn a_store_of_an_earlier_version_is_migrated() {
    let (first, second) = (include_str!("version-1.sql"), include_str!("version-2.sql"));
    let (third, fourth) = (include_str!("version-3.sql"), include_str!("version-4.sql"));
    for made in [
        first.to_owned(),
        format!("{first}{second}"),
        format!("{first}{second}{third}"),
        format!("{first}{second}{third}{fourth}"),
    ] {
        let url = database();
        services::Postgres::shared().restore(name_of(&url), &made);
        is_migrated(&url).await;
    }
}

async fn is_migrated(url: &str) {
    let store = existing(url);
    for host in ["a.example", "x.b.example", "c.example"] {
        assert!(finds(&store, host).await, "{host}");
    }
    let page = store.changes(0, 99).await.unwrap();
    let head = store.head().await.unwrap();
    let start = LogPosition {
        number: 0,
        mark: 0,
        ..head
    };
    assert_eq!((page.changes.len(), page.continued(start)), (4, Some(head)));
    store
        .write(Batch::unchecked(host_with("d.example", 1, sealed)))
        .await
        .unwrap();
    // No step of the tables: the column is as old as they are.
    let mut host = record("d.example", &[]);
    host.tls.client_ca = Some(client_ca(1));
    let writes = vec![put_host(host.clone())];
    store.write(Batch::unchecked(writes)).await.unwrap();
    let read = store.hosts(&[pattern("d.example")]).await.unwrap();
    assert_eq!(read[0].tls, host.tls);
    let page = store.changes(head.number, 99).await.unwrap();
    assert_eq!(page.continued(head), Some(store.head().await.unwrap()));
    let names = [pattern("d.example")];
    let lineage = Lineage::new(Tenant::default(), names).unwrap();
    let put = Write::PutLineage(lineage.clone(), Fence::Absent);
    store.write(Batch::unchecked(vec![put])).await.unwrap();
    let there = store.list_lineages(Listed::All, None, 9).await.unwrap();
    assert_eq!(there[0], lineage);
    // A server of version 2 goes on beside this one.
    let old = "INSERT INTO sekisho.credentials (id, version, key_type, leaf, issuer, key_id, nonce,
            key, not_before, not_after, renew_at)
        SELECT 5, version, key_type, leaf, issuer, key_id, nonce, key, not_before, not_after, NULL
        FROM sekisho.credentials LIMIT 1; SELECT compatible FROM sekisho.meta";
    let compatible = services::Postgres::shared().sql(name_of(url), old);
    assert_eq!(compatible.trim().lines().last(), Some("2"));
}

#[tokio::test]
async fn no_superuser_is_needed() {
    let server = services::Postgres::shared();
    for sql in [
        "CREATE ROLE owner LOGIN PASSWORD 'correct-horse'",
        "CREATE ROLE reader LOGIN PASSWORD 'correct-horse'",
        "CREATE DATABASE owned OWNER owner TEMPLATE template0",
    ] {
        server.sql("postgres", sql);
    }
    let url = |user: &str| {
        let url = server.url("owned").replace("sekisho:", &format!("{user}:"));
        format!("{url}?sslmode=disable")
    };
    create(&url("owner")).head().await.unwrap();
    let error = existing(&url("reader")).head().await.unwrap_err();
    assert!(error.to_string().contains("42501"), "{error}");
    let grants = "GRANT USAGE ON SCHEMA sekisho TO reader;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sekisho TO reader";
    server.sql("owned", grants);
    let store = existing(&url("reader"));
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    assert!(finds(&store, "a.example").await);
    assert_eq!(store.changes(0, 9).await.unwrap().changes.len(), 1);
}

/// As several servers of a version with one migration more would start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_store_is_brought_forward_once() {
    const LATER: &[&str] = &[
        "SELECT 1",
        "SELECT 2",
        "SELECT 3",
        "SELECT 4",
        "SELECT 5",
        "ALTER TABLE sekisho.hosts ADD COLUMN more text",
    ];
    let url = database();
    let store = create(&url);
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let id = store.id().await.unwrap();
    let stores = [(); 4].map(|()| create(&url));
    for store in &stores {
        // Connected while the tables are old.
        store.head().await.unwrap();
    }
    let migrations = stores.map(|store| {
        tokio::spawn(async move {
            let pool = &store.pool;
            let bound = Duration::from_secs(20);
            pool.call(bound, async move |lent| migrate(&lent, LATER).await)
                .await
        })
    });
    for migration in migrations {
        migration.await.unwrap().unwrap();
    }
    let server = services::Postgres::shared();
    let version = server.sql(name_of(&url), "SELECT version FROM sekisho.meta");
    assert_eq!(version.trim(), "6");
    let column = "SELECT count(*) FROM sekisho.hosts WHERE more IS NULL";
    assert_eq!(server.sql(name_of(&url), column).trim(), "1");
    // Nor is it made anew: it keeps its identity.
    assert_eq!(store.id().await.unwrap(), id);
    assert_eq!(existing(&url).id().await.unwrap(), id);
}

/// A dump restored elsewhere, or into the place of what was there, has the
/// identity of its catalog and another log.
#[tokio::test]
async fn a_restored_dump_has_another_log() {
    let url = database();
    let store = create(&url);
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let (id, before) = (store.id().await.unwrap(), store.head().await.unwrap());
    let server = services::Postgres::shared();
    let dump = server.dump(name_of(&url));
    drop(store);
    let place = database();
    server.restore(name_of(&place), &dump);
    let restored = existing(&place);
    assert_eq!(restored.id().await.unwrap(), id);
    let after = restored.head().await.unwrap();
    assert_eq!(after.number, before.number);
    assert_ne!(after.log, before.log);
    assert!(finds(&restored, "a.example").await);
}

#[tokio::test]
async fn another_store_in_the_same_place_is_refused() {
    let url = database();
    let store = create(&url);
    store.head().await.unwrap();
    let server = services::Postgres::shared();
    let other = "UPDATE sekisho.meta SET catalog = '\\x00112233445566778899aabbccddeeff';
                 SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()";
    server.sql(name_of(&url), other);
    let refused = in_time(async {
        loop {
            match store.head().await {
                // The old connection has not noticed its end yet.
                Ok(_) | Err(StoreError::Unavailable(_)) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        }
    });
    let error = refused.await;
    assert!(error.to_string().contains("another store"), "{error}");
}
