//! Lookups are pipelined on connections that they share.

use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::together::{holding, holding_in, waiting};
use super::*;
use sekisho_testkit::contract::fixture::all_hosts;
use sekisho_testkit::services::Signal;

/// Creates a store with the host a.example.
async fn with_a_host(url: &str) {
    let host = Batch::unchecked(host_with("a.example", 1, sealed));
    create(url).write(host).await.unwrap();
}

/// Returns how many connections under this name there are.
pub(super) fn connections(name: &str) -> usize {
    let sql = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'");
    let count = services::Postgres::shared().sql("postgres", &sql);
    count.trim().parse().unwrap()
}

#[tokio::test]
async fn concurrent_lookups_share_one_connection() {
    let url = database();
    with_a_host(&url).await;
    let store = Arc::new(existing(&format!("{url}&application_name=together")));
    let mut lookups = JoinSet::new();
    for number in 0..64 {
        let store = Arc::clone(&store);
        let (host, there) = [("a.example", true), ("b.example", false)][number % 2];
        lookups.spawn(async move { assert_eq!(finds(&store, host).await, there) });
    }
    in_time(lookups.join_all()).await;
    // And the one that reads the log.
    let all = connections("together");
    assert!(all <= 2, "{all} connections");
}

/// A list is read while there are more lookups than connections.
#[tokio::test]
async fn other_calls_have_their_turn_among_lookups() {
    for pool in [1, 2] {
        let url = database();
        with_a_host(&url).await;
        let store = Arc::new(existing(&format!("{url}&pool={pool}")));
        let mut lookups = JoinSet::new();
        for _ in 0..8 {
            let store = Arc::clone(&store);
            lookups.spawn(async move {
                loop {
                    assert!(finds(&store, "a.example").await);
                }
            });
        }
        for _ in 0..20 {
            let hosts = in_time(all_hosts(&*store)).await;
            assert_eq!(hosts.len(), 1, "pool={pool}");
            yield_now().await;
        }
        lookups.abort_all();
    }
}

/// Both what was found, and that nothing was.
#[tokio::test]
async fn an_answer_carries_the_position_that_it_was_read_at() {
    let store = create(&database());
    for number in 1..4 {
        let host = host_with(&format!("h{number}.example"), number, sealed);
        store.write(Batch::unchecked(host)).await.unwrap();
        let head = store.head().await.unwrap();
        assert_eq!(head.number, number);
        for (host, is_there) in [("h1.example", true), ("absent.example", false)] {
            let answer = store.find(&name(host)).await.unwrap();
            assert_eq!(answer.read_at, Some(head.into()), "{host}");
            assert_eq!(answer.found.is_some(), is_there, "{host}");
        }
    }
}

/// A server process that ends or hangs costs time, no answer: the lookup is
/// asked again on a new connection.
#[tokio::test]
async fn a_lookup_survives_the_end_of_its_connection() {
    let server = services::Postgres::start();
    for signal in [Signal::End, Signal::Pause] {
        let url = server.database();
        with_a_host(&url).await;
        let store = existing(&format!("{url}&application_name=lost"));
        assert!(finds(&store, "a.example").await);
        server.signal_backends("lost", signal);
        let found = timeout(Duration::from_secs(9), finds(&store, "a.example")).await;
        let is_paused = matches!(signal, Signal::Pause);
        if is_paused {
            server.signal_backends("lost", Signal::Resume);
        }
        assert!(found.expect("before its deadline"), "{signal:?}");
        // What ended by itself is not counted.
        assert_eq!(
            store.options().retired.get(),
            u64::from(is_paused),
            "{signal:?}"
        );
    }
}

/// A slow database does not get faster by new connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_answer_keeps_its_connection() {
    let url = database();
    with_a_host(&url).await;
    let store = Arc::new(existing(&format!("{url}&application_name=slow")));
    // A connection that is kept; on a busy machine even this may be slow.
    let retired = loop {
        let before = store.options().retired.get();
        assert!(finds(&store, "a.example").await);
        if store.options().retired.get() == before {
            break before;
        }
    };
    // Connected before: a new connection prepares the lookup, which takes the locks too.
    let other = existing(&url);
    other.head().await.unwrap();
    let last = holding(&url, "BEGIN; LOCK TABLE sekisho.issuers").await;
    let kept = store.pool.spare.lock().await;
    let finding = Arc::clone(&store);
    let found = tokio::spawn(async move { finds(&finding, "a.example").await });
    waiting(&url, 1).await;
    // The second connection waits as well, before it can ask, and also once the first is
    // answered: behind this lock, which is given after the first one's.
    let first = async move { holding_in(other, "BEGIN; LOCK TABLE sekisho.hosts").await };
    let first = tokio::spawn(first);
    waiting(&url, 2).await;
    drop(kept);
    waiting(&url, 3).await;
    drop(last);
    assert!(in_time(found).await.unwrap());
    drop(in_time(first).await.unwrap());
    assert_eq!(store.options().retired.get(), retired);
    // The spare connection is closed, once its server process has the lock and notices.
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'slow'
        AND query LIKE '%sekisho.credentials c ON%'";
    let asked = || services::Postgres::shared().sql("postgres", asked);
    in_time(async {
        while asked().trim() != "1" {
            yield_now().await;
        }
    })
    .await;
    assert!(finds(&store, "a.example").await);
}

/// A call that is given up may leave an open transaction, whose connection is
/// not used again.
#[tokio::test]
async fn a_connection_of_a_given_up_call_is_closed() {
    let url = database();
    let store = create(&format!("{url}&pool=1&application_name=given-up"));
    store.head().await.unwrap();
    let late = async move |on: Arc<Connection>| {
        on.run("BEGIN; UPDATE sekisho.meta SET number = 7").await?;
        std::future::pending::<()>().await;
        Ok(())
    };
    let bound = Duration::from_millis(300);
    let error = store.pool.call(bound, late).await.unwrap_err();
    assert!(matches!(error, StoreError::TimedOut(_)), "{error}");
    assert_eq!(in_time(store.head()).await.unwrap().number, 0);
    in_time(async { while connections("given-up") > 1 {} }).await;
}
