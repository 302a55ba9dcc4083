//! Look-ups from a thread that serves.

use tokio::runtime::{Builder, Runtime};

use super::shared::connections;
use super::*;
use crate::near;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// On a thread that serves and ends after it.
fn serving(work: impl Future<Output = ()> + Send) {
    let serve = || {
        runtime().block_on(async {
            near::serve_here();
            in_time(work).await;
        });
    };
    std::thread::scope(|scope| scope.spawn(serve).join().unwrap());
}

/// Whoever polls it, the store's own runtime does the rest; but where clients
/// are served, a look-up soon depends on no other thread.
#[test]
fn they_need_no_other_thread() {
    let own = runtime();
    let store = own.block_on(async {
        let store = create(&database());
        store
            .write(Batch::unchecked(host_with("a.example", 1, sealed)))
            .await
            .unwrap();
        store
    });
    let (tell, told) = tokio::sync::oneshot::channel();
    let (stop, stopped) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let store = &store;
        scope.spawn(move || {
            serving(async move {
                while !has_one(store) {
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
        // From here on that runtime stands still.
        stop.send(()).unwrap();
    });
}

/// Whether a connection lies ready that a thread that serves drives.
fn has_one(store: &Postgres) -> bool {
    let idle = store.pool.idle();
    idle.iter().any(|connection| connection.near().is_some())
}

#[test]
fn they_make_no_more_connections_than_there_may_be() {
    // And the one that listens.
    for (pool, most) in [(1, 2), (2, 3), (3, 3), (8, 3)] {
        let own = Runtime::new().unwrap();
        let url = database();
        let named = format!("{url}&application_name=near{pool}&pool={pool}");
        let store = own.block_on(async {
            let store = create(&named);
            store
                .write(Batch::unchecked(host_with("a.example", 1, sealed)))
                .await
                .unwrap();
            store
        });
        serving(async {
            for _ in 0..20 {
                assert!(finds(&store, "a.example").await);
                store.head().await.unwrap();
            }
            while pool > 2 && !has_one(&store) {
                assert!(finds(&store, "a.example").await);
            }
            assert_eq!(has_one(&store), pool > 2, "pool={pool}");
            let all = connections(&format!("near{pool}")).0;
            assert!(all <= most, "{all} connections, pool={pool}");
        });
        own.block_on(async {
            assert!(finds(&store, "a.example").await);
            store
                .write(Batch::unchecked(host_with("b.example", 2, sealed)))
                .await
                .unwrap();
        });
    }
}
