use std::time::Instant;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::*;
use sekisho_certs::lineage::Fence;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{Precondition, Write};
use sekisho_testkit::contract::fixture::{all_hosts, pattern};
use sekisho_testkit::contract::log;

/// Each with connections of its own, as three servers have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_started_together_take_turns() {
    let url = database();
    let reader = create(&url);
    reader.head().await.unwrap();
    let writers = [(); 2].map(|()| Arc::new(existing(&url)) as Arc<dyn Catalog>);
    log::writers_take_turns(&reader, writers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_thousand_changes_are_caught_up_in_pages() {
    log::a_bulk_run_is_caught_up(&create(&database()), 40).await;
}

/// A transaction that has its number and is not committed yet: another writer
/// waits for it, and readers see neither number until it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_writer_waits_for_the_first() {
    let url = database();
    let (reader, second) = (create(&url), create(&url));
    reader
        .write(Batch::unchecked(host_with("a.example", 1, sealed)))
        .await
        .unwrap();
    let (begun, wait) = oneshot::channel();
    let (commit, committed) = oneshot::channel();
    let first = Arc::clone(&create(&url).pool);
    let first = tokio::spawn(async move {
        let work = async move |on: Arc<Connection>| {
            let step = "BEGIN; UPDATE sekisho.meta SET number = number + 1;
                INSERT INTO sekisho.changes
                SELECT number, 'host', '', 'b.example', false FROM sekisho.meta";
            on.run(step).await?;
            begun.send(()).unwrap();
            committed.await.unwrap();
            on.run("COMMIT").await
        };
        first.call(Duration::from_secs(20), work).await
    });
    wait.await.unwrap();
    let mut writing = tokio::spawn(async move {
        second
            .write(Batch::unchecked(host_with("c.example", 2, sealed)))
            .await
    });
    waiting(&url, 1).await;
    let page = reader.changes(0, 99).await.unwrap();
    assert_eq!((page.last, page.changes.len()), (1, 1));
    assert!(!writing.is_finished());
    commit.send(()).unwrap();
    first.await.unwrap().unwrap();
    assert_eq!((&mut writing).await.unwrap().unwrap(), 3);
    let page = reader.changes(1, 99).await.unwrap();
    let numbers: Vec<_> = page.changes.iter().map(|one| one.number).collect();
    assert_eq!(numbers, [2, 3]);
}

/// As many transactions as may be, and more, stand in line behind another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_read_while_writers_wait() {
    let url = database();
    let store = Arc::new(create(&url));
    store.head().await.unwrap();
    let counter = holding(&url, "BEGIN; SELECT FROM sekisho.meta FOR UPDATE").await;
    let writes: Vec<_> = (1..=20)
        .map(|number| {
            let store = Arc::clone(&store);
            let name = format!("h{number}.example");
            let batch = Batch::unchecked(host_with(&name, number, sealed));
            tokio::spawn(async move { store.write(batch).await })
        })
        .collect();
    waiting(&url, 3).await;
    let page = in_time(store.changes(0, 99)).await.unwrap();
    assert_eq!((page.last, page.changes.len()), (0, 0));
    assert_eq!(in_time(store.head()).await.unwrap().number, 0);
    drop(counter);
    for write in writes {
        write.await.unwrap().unwrap();
    }
    assert_eq!(store.changes(0, 99).await.unwrap().last, 20);
}

/// A read of the log whose caller gave up leaves its permit to the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_of_the_log_that_hangs_holds_up_no_other() {
    let url = database();
    let patient = Options {
        read: Duration::from_hours(1),
        ..Options::default()
    };
    let store = open(&url, Mode::Create, &patient);
    store.head().await.unwrap();
    let locked = holding(&url, "BEGIN; LOCK TABLE sekisho.changes").await;
    for hung in 1..=2 {
        tokio::select! {
            page = store.changes(0, 99) => panic!("{page:?}"),
            () = waiting(&url, hung) => {}
        }
    }
    drop(locked);
    assert_eq!(in_time(store.changes(0, 99)).await.unwrap().last, 0);
}

/// Opens a transaction that keeps what it saw, as a dump does, until it is dropped.
pub(super) async fn snapshot(url: &str) -> oneshot::Sender<()> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM sekisho.changes";
    holding(url, begin).await
}

/// Runs this in a transaction that stays open until the sender is dropped.
pub(super) async fn holding(url: &str, text: &'static str) -> oneshot::Sender<()> {
    holding_in(existing(url), text).await
}

/// Runs this likewise, on the open connection of this store, if it has one.
pub(super) async fn holding_in(store: Postgres, text: &'static str) -> oneshot::Sender<()> {
    let ((begun, wait), (hold, held)) = (oneshot::channel(), oneshot::channel::<()>());
    tokio::spawn(async move {
        let work = async move |on: Arc<Connection>| {
            on.run(text).await?;
            begun.send(()).unwrap();
            let _ = held.await;
            on.run("ROLLBACK").await
        };
        store.pool.call(Duration::from_mins(1), work).await
    });
    wait.await.unwrap();
    hold
}

fn quota(key: &'static str, expect: Precondition) -> Write<SealedBytes> {
    let id = DocumentId::known(DocumentKind::ACME_QUOTA, key);
    Write::PutDocument(Document::new(id, sealed(b"quota")), expect)
}

fn lineage(host: &str, fence: Fence) -> Write<SealedBytes> {
    let lineage = Lineage::new(Tenant::default(), [pattern(host)]);
    Write::PutLineage(lineage.unwrap(), fence)
}

/// Orders, challenges and quotas do not stand in line behind an import.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_announced_waits_for_no_counter() {
    let url = database();
    let store = create(&url);
    store.head().await.unwrap();
    let counter = holding(&url, "BEGIN; SELECT FROM sekisho.meta FOR UPDATE").await;
    let again = vec![
        quota("a", Precondition::Any),
        lineage("a.example", Fence::Any),
        Write::Require(DocumentId::new("check", "value"), Precondition::Absent),
    ];
    for _ in 0..2 {
        in_time(store.write(Batch::unchecked(again.clone())))
            .await
            .unwrap();
    }
    let removed = vec![
        Write::RemoveDocument(
            DocumentId::known(DocumentKind::ACME_QUOTA, "a"),
            Precondition::Version(1),
        ),
        Write::RemoveLineage(LineageName::parse("a.example").unwrap(), Fence::Any),
    ];
    in_time(store.write(Batch::unchecked(removed)))
        .await
        .unwrap();
    drop(counter);
}

/// A row that another transaction has made, and not committed yet, can't be seen, nor
/// locked: it is found when the own one is to be made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_another_makes_is_judged_once_it_is_there() {
    let url = database();
    let store = Arc::new(create(&url));
    store.head().await.unwrap();
    let (document, row) = (
        "BEGIN; INSERT INTO sekisho.documents
            SELECT 'acme-quota', 'a', 7, '\\x090909090909090909090909', 'b', NULL, 4",
        "BEGIN; INSERT INTO sekisho.lineages (name, tenant, names, turn, attempts)
            SELECT 'a.example', '', 'a.example', 0, 0",
    );
    for (text, absent, any) in [
        (
            document,
            quota("a", Precondition::Absent),
            quota("a", Precondition::Any),
        ),
        (
            row,
            lineage("a.example", Fence::Absent),
            lineage("a.example", Fence::Any),
        ),
    ] {
        let (commit, committed) = oneshot::channel::<()>();
        let (begun, wait) = oneshot::channel();
        let other = existing(&url);
        tokio::spawn(async move {
            let work = async move |on: Arc<Connection>| {
                on.run(text).await?;
                begun.send(()).unwrap();
                let _ = committed.await;
                on.run("COMMIT").await
            };
            other.pool.call(Duration::from_mins(1), work).await
        });
        wait.await.unwrap();
        let [absent, any] = [absent, any].map(|write| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.write(Batch::unchecked(vec![write])).await })
        });
        waiting(&url, 2).await;
        drop(commit);
        let conflict = in_time(absent).await.unwrap().unwrap_err();
        assert!(matches!(conflict, StoreError::Conflict(_)), "{conflict}");
        in_time(any).await.unwrap().unwrap();
    }
    let id = DocumentId::known(DocumentKind::ACME_QUOTA, "a");
    let read = store.document(&id).await.unwrap();
    assert_eq!(read.unwrap().version, 5);
}

/// Waits until so many transactions of this database wait for a lock.
pub(super) async fn waiting(url: &str, count: u32) {
    let server = services::Postgres::shared();
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        name_of(url)
    );
    in_time(async {
        while server.sql("postgres", &waits).trim() != count.to_string() {
            yield_now().await;
        }
    })
    .await;
}

/// Promised are 100 ms, which a busy machine does not keep: `make bench-stores` measures it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_s_write_is_noticed_in_time() {
    let direct = database();
    let shared = services::Postgres::shared();
    let pooled = services::PgBouncer::shared().through(shared, &direct);
    for url in [direct, pooled] {
        let (server, command) = (create(&url), create(&url));
        server.head().await.unwrap();
        let mut waits = Vec::new();
        for number in 0..9 {
            let changed = server.changed();
            let host = format!("h{number}.example");
            command
                .write(Batch::unchecked(host_with(&host, number, sealed)))
                .await
                .unwrap();
            let written = Instant::now();
            in_time(changed).await;
            while !finds(&server, &host).await {
                yield_now().await;
            }
            waits.push(written.elapsed());
        }
        waits.sort();
        assert!(waits[4] <= Duration::from_secs(2), "{waits:?}");
    }
}

/// A pipelined batch of the size that an import writes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_batch_is_one_transaction() {
    let store = create(&database());
    let batch =
        (0..1000).flat_map(|number| host_with(&format!("h{number}.example"), number, sealed));
    let batch: Vec<_> = batch.collect();
    assert_eq!(
        store.write(Batch::unchecked(batch.clone())).await.unwrap(),
        1000
    );
    assert_eq!(all_hosts(&store).await.len(), 1000);
    let ids: Vec<_> = (0..1000).map(CredentialId::from_u64).collect();
    assert_eq!(store.credentials(&ids).await.unwrap().len(), 1000);
    let first = Instant::now();
    store.write(Batch::unchecked(batch)).await.unwrap();
    assert!(
        first.elapsed() < Duration::from_secs(10),
        "{:?}",
        first.elapsed()
    );
}
