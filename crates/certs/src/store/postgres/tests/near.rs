//! Look-ups from a thread that serves.

use tokio::runtime::{Builder, Runtime};

use super::shared::connections;
use super::*;
use crate::store::near;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// On a thread that serves and ends after it.
fn serving<T: Send>(work: impl Future<Output = T> + Send) -> T {
    let serve = || {
        runtime().block_on(async {
            near::serve_here();
            in_time(work).await
        })
    };
    std::thread::scope(|scope| scope.spawn(serve).join().unwrap())
}

/// Whoever polls it, the store's own runtime does the rest; but where clients
/// are served, a look-up depends on no other thread.
#[test]
fn they_need_no_other_thread() {
    let own = runtime();
    let store = own.block_on(async {
        let store = create(&database());
        store.write(host_with("a.example", 1)).await.unwrap();
        store
    });
    // From here on that runtime stands still.
    for _ in 0..2 {
        serving(async {
            assert!(finds(&store, "a.example").await);
            assert!(!finds(&store, "b.example").await);
        });
    }
}

#[test]
fn they_make_no_more_connections_than_there_may_be() {
    // And the one that listens.
    for (pool, most) in [(1, 2), (2, 3), (8, 3)] {
        let own = Runtime::new().unwrap();
        let url = database();
        let named = format!("{url}&application_name=near{pool}&pool={pool}");
        let store = own.block_on(async {
            let store = create(&named);
            store.write(host_with("a.example", 1)).await.unwrap();
            store
        });
        serving(async {
            for _ in 0..20 {
                assert!(finds(&store, "a.example").await);
                store.position().await.unwrap();
            }
            let all = connections(&format!("near{pool}")).0;
            assert!(all <= most, "{all} connections, pool={pool}");
        });
        own.block_on(async {
            assert!(finds(&store, "a.example").await);
            store.write(host_with("b.example", 2)).await.unwrap();
        });
    }
}
