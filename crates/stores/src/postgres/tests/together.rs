use std::time::Instant;

use tokio::task::yield_now;

use super::*;
use sekisho_certs::contract::log;

/// Each with connections of its own, as three servers have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_writers_started_together_take_turns() {
    let url = database();
    let reader = create(&url);
    reader.head().await.unwrap();
    let writers = [(); 2].map(|()| Arc::new(existing(&url)) as Arc<dyn Catalog>);
    log::writers_take_turns(&reader, writers).await;
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
    let (begun, wait) = tokio::sync::oneshot::channel();
    let (commit, committed) = tokio::sync::oneshot::channel();
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
    let server = services::Postgres::shared();
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = '{}' AND wait_event_type = 'Lock'",
        name_of(&url)
    );
    in_time(async {
        while server.sql("postgres", &waits).trim() != "1" {
            yield_now().await;
        }
    })
    .await;
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

/// The median of several: one of them may meet a busy machine.
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
        assert!(waits[4].as_millis() <= 100, "{waits:?}");
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
    assert_eq!(store.list_hosts(None, 2000).await.unwrap().len(), 1000);
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
