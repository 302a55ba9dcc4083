//! Files of other versions of the program.

use super::*;
use sekisho_certs::lineage::Fence;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::LogPosition;
use sekisho_testkit::contract::fixture::{all_credentials, all_hosts, client_ca, put_host, record};

/// Makes the file that version 1 had made.
fn version_1() -> Folder {
    let folder = Folder::new();
    let raw = folder.raw();
    raw.execute_batch(include_str!("version-1.sql")).unwrap();
    folder
}

/// Makes the file that version 2 had made.
fn version_2() -> Folder {
    let folder = version_1();
    let raw = folder.raw();
    raw.execute_batch(include_str!("version-2.sql")).unwrap();
    folder
}

/// Makes the file that version 3 had made.
fn version_3() -> Folder {
    let folder = version_2();
    let raw = folder.raw();
    raw.execute_batch(include_str!("version-3.sql")).unwrap();
    folder
}

/// Makes the file that version 4 had made.
pub(super) fn version_4() -> Folder {
    let folder = version_3();
    let raw = folder.raw();
    raw.execute_batch(include_str!("version-4.sql")).unwrap();
    folder
}

#[tokio::test]
async fn a_file_of_an_earlier_version_is_migrated() {
    for folder in [version_1(), version_2(), version_3(), version_4()] {
        is_migrated(&folder).await;
    }
}

async fn is_migrated(folder: &Folder) {
    let store = folder.open().unwrap();
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
    assert_eq!(
        page.continued(head),
        Some(store.head().await.unwrap()),
        "the log goes on over the migration"
    );
    let names = [pattern("d.example")];
    let lineage = Lineage::new(Tenant::default(), names).unwrap();
    let put = Write::PutLineage(lineage.clone(), Fence::Absent);
    store.write(Batch::unchecked(vec![put])).await.unwrap();
    let there = store.list_lineages(Listed::All, None, 9).await.unwrap();
    assert_eq!(there[0], lineage);
}

/// Servers are upgraded one by one: one of version 3 goes on beside this one.
#[tokio::test]
async fn version_3_writes_lineages_beside_this_one() {
    let folder = version_3();
    let store = folder.open().unwrap();
    let mut there = store.list_lineages(Listed::All, None, 9).await.unwrap();
    assert_eq!((there.len(), &there[0].issued_by), (1, &None));
    let mut issued = there.remove(0);
    issued.issued_by = Some("https://ca.example/dir".into());
    let put = Write::PutLineage(issued.clone(), Fence::Any);
    store.write(Batch::unchecked(vec![put])).await.unwrap();
    let put = "INSERT INTO lineages (name, tenant, names, turn, attempts)
        VALUES ('e.example', 'customer', 'e.example', 5, 1)
        ON CONFLICT (name) DO UPDATE SET attempts = excluded.attempts";
    assert_eq!(folder.raw().execute(put, ()).unwrap(), 1);
    issued.attempts = 1;
    let there = store.list_lineages(Listed::All, None, 9).await.unwrap();
    assert_eq!(there, [issued]);
}

/// Servers are upgraded one by one: one of version 2 goes on beside this one.
#[tokio::test]
async fn version_2_writes_what_is_migrated() {
    let folder = version_2();
    let store = folder.open().unwrap();
    let raw = folder.raw();
    let compatible = "SELECT compatible FROM meta";
    let compatible: i32 = raw.query_row(compatible, (), |row| row.get(0)).unwrap();
    assert_eq!(compatible, 2);
    let put = "INSERT INTO credentials (id, version, key_type, leaf, issuer, key_id, nonce, key,
            not_before, not_after, renew_at)
        SELECT 5, version, key_type, leaf, issuer, key_id, nonce, key, not_before, not_after, NULL
        FROM credentials";
    assert_eq!(raw.execute(put, ()).unwrap(), 1);
    assert_eq!(all_credentials(&store).await.len(), 2);
}

/// Programs of version 3 that know no client CA take the words 1.2 and 1.3, and refuse
/// each other text: they must not serve such a host without client certificates.
#[tokio::test]
async fn a_policy_with_a_client_ca_is_no_word_of_an_older_program() {
    let folder = Folder::new();
    let store = folder.create();
    let mut writes = host_with("a.example", 1, sealed);
    let host = writes.iter_mut().find_map(|write| match write {
        Write::PutHost(host, _) => Some(host),
        _ => None,
    });
    host.unwrap().tls.client_ca = Some(client_ca(1));
    store.write(Batch::unchecked(writes)).await.unwrap();
    let raw = folder.raw();
    let read = |row: &rusqlite::Row<'_>| row.get(0);
    let text: String = raw.query_row("SELECT tls FROM hosts", (), read).unwrap();
    assert!(text.starts_with("1.2 client-ca\n-----BEGIN"), "{text}");
    // This program refuses what a later one may add.
    raw.execute("UPDATE hosts SET tls = '1.2 later'", ())
        .unwrap();
    let name = HostName::parse("a.example").unwrap();
    let error = store.find(&name).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("a.example: its TLS policy is not known"),
        "{text}"
    );
}

/// Other programs and later versions may write any policy and tenant.
#[tokio::test]
async fn a_record_that_can_not_be_read_fails_no_list() {
    let folder = Folder::new();
    let store = folder.create();
    let writes = ["a.example", "b.example"].map(|name| put_host(record(name, &[])));
    store.write(Batch::unchecked(writes.into())).await.unwrap();
    for set in ["tls = '1.4'", "tls = '1.3', tenant = char(7)"] {
        let set = format!("UPDATE hosts SET {set} WHERE pattern = 'a.example'");
        folder.raw().execute(&set, ()).unwrap();
        let both = [pattern("a.example"), pattern("b.example")];
        let asked = store.hosts(&both).await.unwrap();
        for mut hosts in [all_hosts(&store).await, asked] {
            hosts.sort_by(|one, other| one.pattern.cmp(&other.pattern));
            let unreadable: Vec<_> = hosts.iter().map(|host| host.unreadable.is_some()).collect();
            assert_eq!(unreadable, [true, false], "{set}");
            let put = put_host(hosts.swap_remove(0));
            let refused = store.write(Batch::unchecked(vec![put])).await.unwrap_err();
            assert!(
                refused.to_string().contains("host a.example: "),
                "{refused}"
            );
        }
        assert!(finds(&store, "b.example").await);
        assert!(store.find(&name("a.example")).await.is_err(), "{set}");
        assert_eq!(store.changes(0, 9).await.unwrap().changes.len(), 2);
    }
    let error = store.tenants(None, 9).await.unwrap_err().to_string();
    assert!(error.contains(r#"the tenant "\u{7}": "#), "{error}");
}

#[test]
fn several_migrate_at_once() {
    let folder = version_1();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| folder.open().unwrap());
        }
    });
    let version: i32 = folder
        .raw()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 5);
}

#[tokio::test]
async fn a_newer_file_that_takes_this_version_is_served() {
    let folder = Folder::new();
    drop(folder.create());
    let raw = folder.raw();
    raw.pragma_update(None, "user_version", 99).unwrap();
    raw.execute_batch("ALTER TABLE hosts ADD COLUMN later INTEGER NOT NULL DEFAULT 7")
        .unwrap();
    drop(raw);
    let store = folder.open().unwrap();
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    assert!(finds(&store, "a.example").await);
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let folder = Folder::new();
    drop(folder.create());
    let raw = folder.raw();
    raw.pragma_update(None, "user_version", 99).unwrap();
    raw.execute("UPDATE meta SET compatible = 98", ()).unwrap();
    drop(raw);
    folder.opening_fails("schema version 99");
    let create = Sqlite::open(&folder.path(), Mode::Create).unwrap_err();
    assert!(
        create
            .to_string()
            .contains("schema version 98 or newer, and this one has 5"),
        "{create}"
    );
}
