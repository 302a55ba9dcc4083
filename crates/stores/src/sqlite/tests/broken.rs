use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::task::Poll;

use rusqlite::StatementStatus;

use super::*;
use crate::sqlite::{find, read};
use sekisho_certs::seal::Sealer;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::Document;
use sekisho_testkit::contract::fixture::plain;

#[test]
fn a_missing_file_is_an_error_and_stays_missing() {
    let folder = Folder::new();
    let error = folder.opening_fails("is missing");
    assert!(matches!(error, StoreError::Unavailable(_)));
    assert!(!folder.path().exists());
    for mode in [Mode::Existing, Mode::Create] {
        let path = folder.0.path().join("no/such/hosts.db");
        let error = Sqlite::open(&path, mode).unwrap_err().to_string();
        assert!(
            error.contains("its folder") && error.contains("no/such"),
            "{error}"
        );
        fs::write(folder.0.path().join("file"), "").unwrap();
        let path = folder.0.path().join("file/hosts.db");
        let error = Sqlite::open(&path, mode).unwrap_err().to_string();
        assert!(error.contains("is no folder"), "{error}");
    }
}

#[tokio::test]
async fn only_its_owner_may_read_it() {
    let folder = Folder::new();
    let store = folder.create();
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    for file in ["hosts.db", "hosts.db-wal", "hosts.db-shm"] {
        let metadata = fs::metadata(folder.0.path().join(file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
    }
}

#[test]
fn other_files_are_refused() {
    let folder = Folder::new();
    fs::write(folder.path(), "certainly no database".repeat(100)).unwrap();
    let error = folder.opening_fails("no SQLite database");
    assert!(matches!(error, StoreError::Corrupt(_)));
    fs::remove_file(folder.path()).unwrap();
    folder.raw().execute_batch("CREATE TABLE t (a)").unwrap();
    folder.opening_fails("another program's");
    let create = Sqlite::open(&folder.path(), Mode::Create).unwrap_err();
    assert!(create.to_string().contains("another program's"), "{create}");
    fs::remove_file(folder.path()).unwrap();
    fs::create_dir(folder.path()).unwrap();
    folder.opening_fails("can't be opened");
}

#[tokio::test]
async fn a_making_that_broke_off_is_completed() {
    let folder = Folder::new();
    fs::write(folder.path(), "").unwrap();
    folder.opening_fails("is empty");
    let store = Sqlite::open(&folder.path(), Mode::Create).unwrap();
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    assert!(finds(&store, "a.example").await);
}

/// Every page but the first is overwritten: whatever a call meets, it never
/// says that a host is absent.
#[tokio::test]
async fn damage_is_failed_and_not_absent() {
    let folder = Folder::new();
    let store = folder.create();
    let raw = folder.raw();
    let made = raw.pragma_query_value(None, "page_count", |row| row.get::<_, u64>(0));
    for number in 0..500 {
        let writes = host_with(&format!("h{number}.example"), number, sealed);
        store.write(Batch::unchecked(writes)).await.unwrap();
    }
    drop(store);
    raw.pragma_update(None, "wal_checkpoint", "truncate")
        .unwrap();
    drop(raw);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(folder.path())
        .unwrap();
    let pages = file.metadata().unwrap().len() / 4096;
    // Without `meta` and the schema it would not open.
    for page in made.unwrap()..pages {
        file.seek(SeekFrom::Start(page * 4096)).unwrap();
        file.write_all(&[0xa5; 4096]).unwrap();
    }
    let store = folder.open().unwrap();
    for number in [0, 250, 499] {
        let host = name(&format!("h{number}.example"));
        let error = store.find(&host).await.unwrap_err();
        assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
        assert!(
            error.to_string().contains("restore it from a backup"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_reference_to_nothing_is_corrupt() {
    let folder = Folder::new();
    let store = folder.create();
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    folder.raw().execute("DELETE FROM credentials", ()).unwrap();
    let error = store.find(&name("a.example")).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
    assert!(error.to_string().contains("a.example"), "{error}");
}

/// A writer waits for the other, then says who to look for; readers go on.
#[tokio::test]
async fn a_locked_file_stops_writers_for_a_while() {
    let folder = Folder::new();
    folder
        .create()
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let options = Options {
        busy: Duration::from_millis(200),
        ..Options::default()
    };
    let store = Sqlite::open_with(&folder.path(), Mode::Existing, &options).unwrap();
    let other = folder.raw();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = store
        .write(Batch::unchecked(host_with("b.example", 2, sealed)))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("fuser"), "{error}");

    let patient = folder.open().unwrap();
    let mut write = patient.write(Batch::unchecked(host_with("b.example", 2, sealed)));
    let polled = std::future::poll_fn(|cx| Poll::Ready(write.as_mut().poll(cx).is_pending()));
    assert!(polled.await);
    assert!(finds(&patient, "a.example").await);
    assert!(!finds(&patient, "b.example").await);
    other.execute_batch("COMMIT").unwrap();
    write.await.unwrap();
    assert!(finds(&store, "b.example").await);
}

/// The pager's own limit stands for the disk's: both are SQLITE_FULL.
#[tokio::test]
async fn a_full_disk_refuses_a_write_whole() {
    let folder = Folder::new();
    let store = folder.create();
    store
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let limit = |pages: i64| {
        let set = move |connection: &mut Connection| {
            connection.pragma_update(None, "max_page_count", pages)?;
            Ok(())
        };
        store.change(move |reader| reader.run(set))
    };
    limit(1).await.unwrap();
    let before = store.head().await.unwrap();
    let many: Vec<_> = (2..200)
        .flat_map(|number| host_with(&format!("h{number}.example"), number, sealed))
        .collect();
    let error = store
        .write(Batch::unchecked(many.clone()))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(store.head().await.unwrap(), before);
    assert!(finds(&store, "a.example").await && !finds(&store, "h2.example").await);
    limit(1 << 30).await.unwrap();
    store.write(Batch::unchecked(many)).await.unwrap();
    assert!(finds(&store, "h199.example").await);
}

#[tokio::test]
async fn a_wrong_master_key_is_told_apart() {
    let folder = Folder::new();
    let ring = |byte| KeyRing::new(MasterKey::new(&[byte; 32]));
    let open = async |byte| {
        let inner = Arc::new(folder.open().unwrap());
        Sealer::open(inner, ring(byte)).await
    };
    let inner = Arc::new(folder.create());
    let unfinished = open(1).await.unwrap_err();
    assert!(
        unfinished.to_string().contains("no check value"),
        "{unfinished}"
    );
    let sealer = Sealer::create(inner, ring(1)).await.unwrap();
    let document = Document::new(DocumentId::new("kind", "key"), plain(b"content"));
    sealer
        .write(vec![Write::PutDocument(document, Precondition::Absent)])
        .await
        .unwrap();
    for wrong in [
        open(2).await,
        Sealer::create(Arc::new(folder.open().unwrap()), ring(2)).await,
    ] {
        let error = wrong.unwrap_err();
        assert!(matches!(error, StoreError::Refused(_)), "{error}");
        assert!(error.to_string().contains("wrong master key"), "{error}");
    }
    let right = open(1).await.unwrap();
    assert!(
        right
            .document(&DocumentId::new("kind", "key"))
            .await
            .unwrap()
            .is_some()
    );
    // Moved to another place, it does not open.
    let moved = "UPDATE documents SET key = 'other' WHERE kind = 'kind'";
    folder.raw().execute(moved, ()).unwrap();
    let error = right
        .document(&DocumentId::new("kind", "other"))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Corrupt(_)), "{error}");
}

#[tokio::test]
async fn no_file_holds_a_key_in_the_clear() {
    let folder = Folder::new();
    let ring = KeyRing::new(MasterKey::new(&[1; 32]));
    let inner = Arc::new(folder.create());
    let sealer = Sealer::create(inner, ring).await.unwrap();
    let secret: Vec<u8> = (0..=255).collect();
    let mut writes = host_with("a.example", 1, plain);
    let Write::PutCredential(credential, _) = &mut writes[0] else {
        panic!("a credential first")
    };
    credential.key = plain(&secret);
    let leaf = credential.chain[0].to_vec();
    let document = Document::new(DocumentId::new("ticket", "1"), plain(&secret));
    writes.push(Write::PutDocument(document, Precondition::Any));
    sealer.write(writes).await.unwrap();
    let mut seen = false;
    for _ in 0..2 {
        for file in fs::read_dir(folder.0.path()).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            assert!(!bytes.windows(16).any(|window| window == &secret[32..48]));
            // The public parts are there: the right files were read.
            seen |= bytes.windows(leaf.len()).any(|window| window == leaf);
        }
        folder
            .raw()
            .pragma_update(None, "wal_checkpoint", "full")
            .unwrap();
    }
    assert!(seen);
}

/// Returns the statements of all reads.
fn reads() -> impl Iterator<Item = String> {
    let fixed = find::indexed().into_iter().chain(read::indexed());
    let lists = lists::each().into_iter().map(|list| list.text);
    fixed.map(str::to_owned).chain(lists)
}

/// A call that scans would take a million times as long with a million hosts.
#[test]
fn no_read_scans_a_table() {
    let folder = Folder::new();
    drop(folder.create());
    let raw = folder.raw();
    for sql in reads() {
        let mut plan = raw.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let parameters = plan.parameter_count();
        let rows = plan.query_map(
            rusqlite::params_from_iter((0..parameters).map(|_| "x")),
            |row| row.get::<_, String>(3),
        );
        let steps: Vec<String> = rows.unwrap().map(|row| row.unwrap()).collect();
        // Parameters that are lists, and bounded selects within, are no tables.
        let is_bounded = |step: &String| {
            let inner = step.strip_prefix("SCAN ").unwrap_or_default();
            ["CONSTANT", "VIRTUAL TABLE"]
                .iter()
                .any(|one| step.contains(one))
                || steps.contains(&format!("CO-ROUTINE {inner}"))
        };
        let scans = |step: &String| step.starts_with("SCAN") && !is_bounded(step);
        assert!(!steps.iter().any(scans), "{sql}: {steps:#?}");
        assert!(
            !steps.iter().any(|step| step.contains("TEMP B-TREE")),
            "{sql}: {steps:#?}"
        );
    }
}

/// Planning a statement takes forty times as long as running it.
#[test]
fn no_read_is_planned_twice() {
    let folder = Folder::new();
    drop(folder.create());
    let options = Options::default();
    let (_, mut reader) = StoreFile::open(&folder.path(), Mode::Existing, &options).unwrap();
    for sql in reads() {
        let planned = reader.run(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            for round in 0..5 {
                let values = (0..statement.parameter_count()).map(|_| round);
                let mut rows = statement.query(rusqlite::params_from_iter(values))?;
                while rows.next()?.is_some() {}
            }
            Ok(statement.get_status(StatementStatus::RePrepare))
        });
        assert_eq!(planned.unwrap(), 0, "{sql}");
    }
}

/// A call that panics may leave a transaction open: no later call may find it.
#[tokio::test]
async fn a_panic_closes_its_connection() {
    let folder = Folder::new();
    let store = folder.create();
    for _ in 0..2 * READERS {
        let panics = store.read::<()>(|reader| {
            reader.run(|connection| {
                connection.execute_batch("BEGIN")?;
                panic!("a bad row")
            })
        });
        let error = panics.await.unwrap_err();
        assert!(matches!(error, StoreError::Failed(_)), "{error}");
    }
    for _ in 0..2 * READERS {
        assert!(
            store
                .hosts(&[pattern("a.example")])
                .await
                .unwrap()
                .is_empty()
        );
    }
}
