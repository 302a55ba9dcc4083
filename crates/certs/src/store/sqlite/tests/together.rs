use std::sync::Arc;

use super::*;

/// Two that write and one that reads, each with connections of its own, as
/// three processes have: the reader sees each number once and in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_writers_started_together_take_turns() {
    const ROUNDS: u64 = 40;
    let folder = Folder::new();
    let reader = folder.create();
    let writers = [1_u64, 2].map(|writer| {
        let store = Arc::new(folder.open().unwrap());
        tokio::spawn(async move {
            for round in 0..ROUNDS {
                let host = format!("w{writer}-{round}.example");
                store
                    .write(host_with(&host, writer << 32 | round))
                    .await
                    .unwrap();
            }
        })
    });
    let mut seen = 0;
    while seen < 2 * ROUNDS {
        let position = reader.position().await.unwrap();
        let page = reader.changes(seen, 1000).await.unwrap();
        assert!(!page.gap && page.last >= position.number);
        for change in page.changes {
            assert_eq!(change.number, seen + 1);
            seen = change.number;
        }
        // Nothing below what was announced is missing.
        assert!(seen >= position.number);
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(reader.position().await.unwrap().number, 2 * ROUNDS);
}

#[tokio::test]
async fn another_process_s_write_is_noticed() {
    let folder = Folder::new();
    let (server, command) = (folder.create(), folder.open().unwrap());
    for number in 0..5 {
        let changed = server.changed();
        let host = format!("h{number}.example");
        command.write(host_with(&host, number)).await.unwrap();
        in_time(changed).await;
        assert!(finds(&server, &host).await);
    }
}

#[tokio::test]
async fn two_that_make_it_at_once_make_one() {
    let folder = Folder::new();
    let threads = [(); 4].map(|()| {
        let path = folder.path();
        std::thread::spawn(move || Sqlite::open(&path, Mode::Create).unwrap())
    });
    let stores = threads.map(|thread| thread.join().unwrap());
    for (number, store) in stores.iter().enumerate() {
        assert_eq!(store.id().await.unwrap(), stores[0].id().await.unwrap());
        let host = format!("h{number}.example");
        store.write(host_with(&host, number as u64)).await.unwrap();
        assert!(finds(&stores[0], &host).await);
    }
}
