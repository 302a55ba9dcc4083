//! Lookups from threads that serve.

use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::Barrier;

use super::lookups::connections;
use super::*;
use crate::worker;

/// Longest wait for a connection on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Runs this on a thread of its own, as a worker does.
fn serving(work: impl Future<Output = ()> + Send) {
    let serve = || {
        runtime().block_on(async {
            worker::register();
            in_time(work).await;
        });
    };
    std::thread::scope(|scope| scope.spawn(serve).join().unwrap());
}

/// Tells whether the worker that asks has a connection of its own that is up.
fn has_own(store: &Postgres) -> bool {
    let lookups = store.pool.lookups.as_ref();
    lookups.is_some_and(|lookups| lookups.own(|_| true).is_some())
}

async fn with_a_host(url: &str) -> Postgres {
    let store = create(url);
    let host = Batch::unchecked(host_with("a.example", 1, sealed));
    store.write(host).await.unwrap();
    store
}

#[test]
fn a_worker_s_lookups_need_no_other_thread() {
    let own = runtime();
    let store = own.block_on(with_a_host(&database()));
    let (tell, told) = tokio::sync::oneshot::channel();
    let (stop, stopped) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            serving(async move {
                while !has_own(store) {
                    assert!(finds(store, "a.example").await);
                }
                tell.send(()).unwrap();
                stopped.recv().unwrap();
                for _ in 0..9 {
                    assert!(finds(store, "a.example").await);
                    assert!(!finds(store, "b.example").await);
                }
            });
        });
        own.block_on(told).unwrap();
        // From here on the store's own runtime stands still.
        stop.send(()).unwrap();
    });
}

#[test]
fn a_worker_that_stands_still_holds_up_no_other() {
    let own = runtime();
    let url = format!("{}&pool=1", database());
    drop(own.block_on(with_a_host(&url)));
    let background = Runtime::new().unwrap();
    let store = background.block_on(async { existing(&url) });
    let (asked, other) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            serving(async {
                // Opens the only connection.
                assert!(finds(&store, "a.example").await);
                asked.wait();
                other.wait();
            });
        });
        asked.wait();
        let found = own.block_on(store.find(&name("a.example")));
        other.wait();
        assert!(found.unwrap().found.is_some());
    });
}

#[test]
fn connections_of_workers_count_in_the_pool() {
    for (pool, own) in [(1, 0), (2, 0), (3, 1), (8, 3)] {
        let background = Runtime::new().unwrap();
        let url = format!("{}&application_name=near{pool}&pool={pool}", database());
        let store = background.block_on(with_a_host(&url));
        let all_have_asked = Barrier::new(3);
        let have = std::thread::scope(|scope| {
            let worker = || {
                let mut has = false;
                serving(async {
                    let begun = Instant::now();
                    // Each worker gets one in time where there is one for each.
                    let mut asked = 0;
                    while asked < 50 || (own == 3 && !has && begun.elapsed() < PATIENCE) {
                        assert!(finds(&store, "a.example").await);
                        store.head().await.unwrap();
                        has |= has_own(&store);
                        asked += 1;
                    }
                    all_have_asked.wait().await;
                    // And the one that reads the log.
                    let all = connections(&format!("near{pool}"));
                    assert!(all <= pool + 1, "{all} connections, pool={pool}");
                    all_have_asked.wait().await;
                });
                has
            };
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
            let have = workers.into_iter().map(|worker| worker.join().unwrap());
            have.filter(|has| *has).count()
        });
        assert_eq!(have, own, "pool={pool}");
        // Connections of workers that ended are not missed.
        assert!(background.block_on(finds(&store, "a.example")));
    }
}
