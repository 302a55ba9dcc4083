use std::sync::Arc;

use super::*;
use sekisho_testkit::contract::log;

/// Each with connections of its own, as three processes have.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_writers_started_together_take_turns() {
    let folder = Folder::new();
    let reader = folder.create();
    let writers = [(); 2].map(|()| Arc::new(folder.open().unwrap()) as Arc<dyn Catalog>);
    log::writers_take_turns(&reader, writers).await;
}

#[tokio::test]
async fn half_a_million_changes_are_caught_up_in_pages() {
    let folder = Folder::new();
    log::a_bulk_run_is_caught_up(&folder.create(), 100).await;
}

#[tokio::test]
async fn another_process_s_write_is_noticed() {
    let folder = Folder::new();
    let (server, command) = (folder.create(), folder.open().unwrap());
    for number in 0..5 {
        let changed = server.changed();
        let host = format!("h{number}.example");
        command
            .write(Batch::unchecked(host_with(&host, number, sealed)))
            .await
            .unwrap();
        in_time(changed).await;
        assert!(finds(&server, &host).await);
    }
}

/// Many times: of a few rounds, SQLite refuses nobody in most.
#[tokio::test]
async fn many_that_make_it_at_once_make_one() {
    for _ in 0..ROUNDS {
        let folder = Folder::new();
        let threads = [(); 4].map(|()| {
            let path = folder.path();
            std::thread::spawn(move || Sqlite::open(&path, Mode::Create).unwrap())
        });
        let stores = threads.map(|thread| thread.join().unwrap());
        for store in &stores {
            assert_eq!(store.id().await.unwrap(), stores[0].id().await.unwrap());
        }
        let [first, .., last] = &stores;
        last.write(Batch::unchecked(host_with("h.example", 1, sealed)))
            .await
            .unwrap();
        assert!(finds(first, "h.example").await);
    }
}

const ROUNDS: usize = 50;
