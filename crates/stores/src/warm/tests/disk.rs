//! The file: its bounds, and what is wrong with it.

use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::*;
use sekisho_certs::contract::fixture::put_host;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, Site};

/// A host whose copy takes some kilobytes.
async fn put_large(rig: &Rig, number: usize) -> String {
    let name = format!("h{number}.example");
    let mut record = HostRecord::new(HostPattern::parse(&name).unwrap());
    record.site = Some(Site {
        format: 1,
        json: "x".repeat(3000).into(),
    });
    rig.there
        .catalog
        .write(Batch::unchecked(vec![put_host(record)]))
        .await
        .unwrap();
    name
}

fn bytes(path: &Path) -> u64 {
    let mut log = path.to_owned().into_os_string();
    log.push("-wal");
    let length = |path: &Path| fs::metadata(path).map_or(0, |there| there.len());
    length(path) + length(Path::new(&log))
}

#[tokio::test]
async fn the_file_stays_within_its_size_and_the_oldest_go() {
    let mut rig = Rig::new();
    rig.size = 4 << 20;
    let (warm, copies, _) = rig.following().await;
    let mut most = 0;
    for number in 0..3000 {
        let name = put_large(&rig, number).await;
        assert_eq!(who(&warm, &name).await, name);
        most = most.max(bytes(&rig.path()));
        // No more than the queue takes.
        while number % 100 == 99 && !copies.is_idle() {
            tokio::time::sleep(LOOK).await;
        }
    }
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    let stats = copies.stats();
    assert_eq!(stats.dropped, 0, "{stats:?}");
    assert!(stats.copies > 300 && stats.copies < 1000, "{stats:?}");
    assert!(stats.bytes <= rig.size, "{stats:?}");
    most = most.max(bytes(&rig.path()));
    assert!(most <= rig.size, "{most}");
    rig.switch.say(away());
    assert_eq!(who(&warm, "h2999.example").await, "h2999.example");
    assert_eq!(who(&warm, "h0.example").await, AWAY);
    // It counts the same when it is opened again.
    drop((warm, copies));
    let (_, copies) = rig.warm();
    kept(&copies, stats.copies).await;
    drop(copies);
    // Larger than it may be now: anew.
    rig.size = 0;
    fs::OpenOptions::new()
        .append(true)
        .open(rig.path())
        .unwrap()
        .set_len(5 << 20)
        .unwrap();
    let (_, copies) = rig.warm();
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    assert_eq!(copies.stats().copies, 0);
    assert!(bytes(&rig.path()) < 1 << 20);
}

#[tokio::test]
async fn what_lies_there_already_is_not_written_again() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    let (warm, copies, _) = rig.following().await;
    assert_eq!(who(&warm, "a.example").await, "a.example");
    kept(&copies, 1).await;
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    drop((warm, copies));
    let (warm, copies, _) = rig.following().await;
    for _ in 0..10 {
        assert_eq!(who(&warm, "a.example").await, "a.example");
    }
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    assert_eq!(copies.stats().copies, 1);
    let mut log = rig.path().into_os_string();
    log.push("-wal");
    let written = fs::metadata(log).map_or(0, |there| there.len());
    assert_eq!(written, 0);
}

#[tokio::test]
async fn one_process_has_it() {
    let rig = Rig::new();
    let copies = rig.copies();
    let error = Copies::open(&rig.options()).unwrap_err().to_string();
    assert!(error.contains("another server uses"), "{error}");
    drop(copies);
    rig.copies();
}

#[tokio::test]
async fn the_file_is_its_owners_alone() {
    let rig = Rig::new();
    let _copies = rig.copies();
    for entry in fs::read_dir(rig.folder.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode, 0o600, "{entry:?}");
    }
}

#[tokio::test]
async fn what_is_not_ours_is_left_alone() {
    let rig = Rig::new();
    let there = rig.path();
    for content in [&b"a text of somebody"[..], &[7; 4096], b"SQLite format 3\0"] {
        fs::write(&there, content).unwrap();
        let error = Copies::open(&rig.options()).unwrap_err().to_string();
        assert!(error.contains("is no file of copies"), "{error}");
        assert_eq!(fs::read(&there).unwrap(), content);
    }
    fs::remove_file(&there).unwrap();
    let other = rusqlite::Connection::open(&there).unwrap();
    other.execute_batch("CREATE TABLE a (b)").unwrap();
    drop(other);
    let error = Copies::open(&rig.options()).unwrap_err().to_string();
    assert!(error.contains("is no file of copies"), "{error}");
    fs::remove_file(&there).unwrap();
    let mut nowhere = rig.options();
    for path in ["/proc/warm.db", "/dev/null/warm.db"] {
        nowhere.path = path.into();
        let error = Copies::open(&nowhere).unwrap_err().to_string();
        assert!(error.contains(path), "{error}");
    }
}

/// Fills a file with many copies and closes it.
async fn filled(rig: &Rig) {
    let (warm, copies, _) = rig.following().await;
    for number in 0..200 {
        let name = put_large(rig, number).await;
        assert_eq!(who(&warm, &name).await, name);
    }
    kept(&copies, 200).await;
    drop((warm, copies));
    closed(rig).await;
}

/// Waits until nobody has the file.
async fn closed(rig: &Rig) {
    let is_free = || file::Place::take(&rig.path(), rig.size).is_ok();
    until(is_free, || "it stays locked".into()).await;
}

#[tokio::test]
async fn a_damaged_file_is_replaced() {
    let rig = Rig::new();
    filled(&rig).await;
    let mut file = fs::OpenOptions::new().write(true).open(rig.path()).unwrap();
    // All but the header and the first table.
    file.seek(SeekFrom::Start(2 * 4096)).unwrap();
    let length = file.metadata().unwrap().len() - 2 * 4096;
    let junk = vec![0xab; usize::try_from(length).unwrap()];
    file.write_all(&junk).unwrap();
    drop(file);
    rig.switch.say(away());
    let (warm, copies) = rig.warm();
    assert_eq!(who(&warm, "h1.example").await, AWAY);
    rig.switch.say(None);
    assert_eq!(who(&warm, "h1.example").await, "h1.example");
    kept(&copies, 1).await;
    rig.switch.say(away());
    assert_eq!(who(&warm, "h1.example").await, "h1.example");
}

/// Found by review: counting what is in use overflowed.
#[tokio::test]
async fn more_free_pages_than_there_are_do_no_harm() {
    let rig = Rig::new();
    filled(&rig).await;
    let mut file = fs::OpenOptions::new().write(true).open(rig.path()).unwrap();
    // Where the header counts them.
    file.seek(SeekFrom::Start(36)).unwrap();
    file.write_all(&[0x7f; 4]).unwrap();
    drop(file);
    rig.switch.say(away());
    let (warm, copies) = rig.warm();
    assert_eq!(who(&warm, "h1.example").await, "h1.example");
    assert!(copies.stats().bytes <= rig.size, "{:?}", copies.stats());
    // Writing meets the damage, and goes on in a new file if it must.
    rig.switch.say(None);
    let name = put_large(&rig, 999).await;
    warm.head().await.unwrap();
    assert_eq!(who(&warm, &name).await, name);
    rig.switch.say(away());
    let begun = Instant::now();
    while who(&warm, &name).await != name {
        assert!(begun.elapsed() < LONG, "{copies:?}");
        rig.switch.say(None);
        assert_eq!(who(&warm, &name).await, name);
        until(|| copies.is_idle(), || format!("{copies:?}")).await;
        rig.switch.say(away());
    }
}

/// Found by review: it warned at each look-up, and stayed.
#[tokio::test]
async fn a_copy_that_cannot_be_read_is_dropped() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    rig.there.put("*.b.example").await;
    let (warm, copies, _) = rig.following().await;
    let serves = async || {
        assert_eq!(who(&warm, "a.example").await, "a.example");
        assert_eq!(who(&warm, "x.b.example").await, "*.b.example");
    };
    serves().await;
    kept(&copies, 2).await;
    let damage = |keeper: &mut keep::Keeper| {
        let connection = keeper.connection.as_ref().unwrap();
        connection
            .execute("UPDATE copies SET bytes = x'07'", ())
            .unwrap();
    };
    copies.ask(damage).await.unwrap();
    rig.switch.say(away());
    assert_eq!(who(&warm, "a.example").await, AWAY);
    assert_eq!(who(&warm, "x.b.example").await, AWAY);
    assert_eq!(copies.stats().copies, 0);
    // They are kept again.
    rig.switch.say(None);
    serves().await;
    kept(&copies, 2).await;
    rig.switch.say(away());
    serves().await;
}

#[tokio::test]
async fn a_file_of_another_version_or_store_is_started_anew() {
    let rig = Rig::new();
    filled(&rig).await;
    let mut options = rig.options();
    options.store = "another".into();
    let copies = Copies::open(&options).unwrap();
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    assert_eq!(copies.stats().copies, 0);

    let rig = Rig::new();
    filled(&rig).await;
    let newer = rusqlite::Connection::open(rig.path()).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let copies = rig.copies();
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    assert_eq!(copies.stats().copies, 0);
}

#[tokio::test]
async fn copies_that_cannot_be_dropped_are_removed() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    let (warm, copies, _) = rig.following().await;
    assert_eq!(who(&warm, "a.example").await, "a.example");
    kept(&copies, 1).await;
    // Nothing can be written any more.
    let forbid = |keeper: &mut keep::Keeper| {
        let connection = keeper.connection.as_ref().unwrap();
        connection.pragma_update(None, "query_only", true).unwrap();
    };
    copies.ask(forbid).await.unwrap();
    rig.there.put("b.example").await;
    let at = copies.position().unwrap();
    warm.changes(at.number, 100).await.unwrap();
    kept(&copies, 0).await;
    rig.switch.say(away());
    assert_eq!(who(&warm, "a.example").await, AWAY);
    drop((warm, copies));
    let (warm, _) = rig.warm();
    assert_eq!(who(&warm, "a.example").await, AWAY);
}
