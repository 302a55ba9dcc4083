//! The file: its bounds, and what is wrong with it.

use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::*;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Site;
use sekisho_testkit::contract::fixture::put_host;

/// A host whose copy takes some kilobytes.
async fn put_large(rig: &Rig, number: usize) -> String {
    put_site(rig, number, 3000).await
}

/// A host whose site has so many bytes.
async fn put_site(rig: &Rig, number: usize, length: usize) -> String {
    let name = format!("h{number}.example");
    let mut record = HostRecord::new(HostPattern::parse(&name).unwrap());
    record.site = Some(Site {
        format: 1,
        json: "x".repeat(length).into(),
    });
    rig.write(vec![put_host(record)]).await;
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
    let server = rig.following().await;
    let mut most = 0;
    for number in 0..3000 {
        let name = put_large(&rig, number).await;
        assert_eq!(server.who(&name).await, name);
        most = most.max(bytes(&rig.path()));
        // No more than the queue takes.
        if number % 100 == 99 {
            server.settled().await;
        }
    }
    server.settled().await;
    let stats = server.disk.stats();
    assert_eq!(stats.dropped.get(), 0, "{stats:?}");
    assert!(
        stats.copies.get() > 300 && stats.copies.get() < 1000,
        "{stats:?}"
    );
    assert!(stats.bytes.get() <= rig.size, "{stats:?}");
    most = most.max(bytes(&rig.path()));
    assert!(most <= rig.size, "{most}");
    rig.switch.say(away());
    assert_eq!(server.who("h2999.example").await, "h2999.example");
    assert_eq!(server.who("h0.example").await, AWAY);
    // The count is equal when it is opened again.
    drop(server);
    let server = rig.server().await;
    server.kept(stats.copies.get()).await;
    drop(server);
    closed(&rig).await;
    // Larger than it may be now: anew.
    rig.size = 0;
    fs::OpenOptions::new()
        .append(true)
        .open(rig.path())
        .unwrap()
        .set_len(5 << 20)
        .unwrap();
    let server = rig.server().await;
    server.settled().await;
    assert_eq!(server.disk.stats().copies.get(), 0);
    assert!(bytes(&rig.path()) < 1 << 20);
}

/// A host with 1,000 redirects must be there after a restart in an outage, too.
#[tokio::test]
async fn copies_of_the_largest_sites_make_room_for_each_other() {
    let mut rig = Rig::new();
    rig.size = 4 << 20;
    let server = rig.following().await;
    let mut most = 0;
    for number in 0..40 {
        let name = put_site(&rig, number, 256 << 10).await;
        assert_eq!(server.who(&name).await, name);
        most = most.max(bytes(&rig.path()));
        // No more than the queue takes.
        if number % 8 == 7 {
            server.settled().await;
        }
    }
    server.settled().await;
    let stats = server.disk.stats();
    assert_eq!(stats.dropped.get(), 0, "{stats:?}");
    assert!((5..12).contains(&stats.copies.get()), "{stats:?}");
    most = most.max(bytes(&rig.path()));
    assert!(most <= rig.size, "{most}");
    rig.switch.say(away());
    assert_eq!(server.who("h39.example").await, "h39.example");
    assert_eq!(server.who("h36.example").await, "h36.example");
    assert_eq!(server.who("h0.example").await, AWAY);
}

#[tokio::test]
async fn what_lies_there_already_is_not_written_again() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = rig.following().await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    server.settled().await;
    drop(server);
    let server = rig.following().await;
    let before = bytes(&rig.path());
    for _ in 0..10 {
        assert_eq!(server.who("a.example").await, "a.example");
    }
    server.settled().await;
    assert_eq!(server.disk.stats().copies.get(), 1);
    assert_eq!(bytes(&rig.path()), before);
}

#[tokio::test]
async fn one_process_has_it() {
    let rig = Rig::new();
    let disk = rig.disk(&Arc::default()).await;
    let error = DiskCache::open(&rig.options(), Arc::default(), &Handle::current())
        .unwrap_err()
        .to_string();
    assert!(error.contains("another server uses"), "{error}");
    drop(disk);
    rig.disk(&Arc::default()).await;
}

#[tokio::test]
async fn the_file_is_its_owners_alone() {
    let rig = Rig::new();
    let _disk = rig.disk(&Arc::default()).await;
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
        let error = DiskCache::open(&rig.options(), Arc::default(), &Handle::current())
            .unwrap_err()
            .to_string();
        assert!(error.contains("is no disk cache"), "{error}");
        assert_eq!(fs::read(&there).unwrap(), content);
    }
    fs::remove_file(&there).unwrap();
    let other = rusqlite::Connection::open(&there).unwrap();
    other.execute_batch("CREATE TABLE a (b)").unwrap();
    drop(other);
    let error = DiskCache::open(&rig.options(), Arc::default(), &Handle::current())
        .unwrap_err()
        .to_string();
    assert!(error.contains("is no disk cache"), "{error}");
    fs::remove_file(&there).unwrap();
    let mut nowhere = rig.options();
    for path in ["/proc/disk-cache.db", "/dev/null/disk-cache.db"] {
        nowhere.path = path.into();
        let error = DiskCache::open(&nowhere, Arc::default(), &Handle::current())
            .unwrap_err()
            .to_string();
        assert!(error.contains(path), "{error}");
    }
}

/// A file of the version before the last, which had another default name.
#[tokio::test]
async fn an_old_file_is_removed() {
    let rig = Rig::new();
    let beside = |suffix: &str| rig.folder.path().join(format!("warm.db{suffix}"));
    for suffix in ["", "-wal", ".key", ".lock"] {
        fs::write(beside(suffix), "old").unwrap();
    }
    rig.disk(&Arc::default()).await;
    for suffix in ["", "-wal", ".key", ".lock"] {
        assert!(!beside(suffix).exists(), "{suffix}");
    }
}

/// Fills a file with many copies and closes it.
async fn filled(rig: &Rig) {
    let server = rig.following().await;
    for number in 0..200 {
        let name = put_large(rig, number).await;
        assert_eq!(server.who(&name).await, name);
    }
    server.kept(200).await;
    drop(server);
    closed(rig).await;
}

/// Waits until nobody has the file.
async fn closed(rig: &Rig) {
    let is_free = || file::CacheFile::lock(&rig.path(), rig.size).is_ok();
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
    let server = rig.server().await;
    assert_eq!(server.who("h1.example").await, AWAY);
    rig.switch.say(None);
    server.follow().await;
    assert_eq!(server.who("h1.example").await, "h1.example");
    server.kept(1).await;
    rig.switch.say(away());
    assert_eq!(server.who("h1.example").await, "h1.example");
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
    let server = rig.server().await;
    assert_eq!(server.who("h1.example").await, "h1.example");
    assert!(
        server.disk.stats().bytes.get() <= rig.size,
        "{:?}",
        server.disk.stats()
    );
    // Writing meets the damage, and goes on in a new file if it must.
    rig.switch.say(None);
    let name = put_large(&rig, 999).await;
    server.follow().await;
    assert_eq!(server.who(&name).await, name);
    rig.switch.say(away());
    let begun = Instant::now();
    while server.who(&name).await != name {
        assert!(begun.elapsed() < LONG, "{:?}", server.disk);
        rig.switch.say(None);
        assert_eq!(server.who(&name).await, name);
        server.settled().await;
        rig.switch.say(away());
    }
}

/// Found by review: the server warned at each lookup, and the row stayed.
#[tokio::test]
async fn a_copy_that_cannot_be_read_is_dropped() {
    let rig = Rig::new();
    rig.put("a.example").await;
    rig.put("*.b.example").await;
    let server = rig.following().await;
    let serves = async || {
        assert_eq!(server.who("a.example").await, "a.example");
        assert_eq!(server.who("x.b.example").await, "*.b.example");
    };
    serves().await;
    server.kept(2).await;
    let damage = |writer: &mut Writer| {
        let connection = writer.connection.as_ref().unwrap();
        connection
            .execute("UPDATE copies SET bytes = x'07'", ())
            .unwrap();
    };
    server.disk.inner.ask(damage).await.unwrap();
    rig.switch.say(away());
    assert_eq!(server.who("a.example").await, AWAY);
    assert_eq!(server.who("x.b.example").await, AWAY);
    assert_eq!(server.disk.stats().copies.get(), 0);
    // The copies are kept again.
    rig.switch.say(None);
    serves().await;
    server.kept(2).await;
    rig.switch.say(away());
    serves().await;
}

/// Starts a server on a file that it must not use: no copy of it answers, and new ones are
/// kept.
async fn starts_anew(rig: &Rig) {
    rig.switch.say(away());
    let server = rig.server().await;
    assert_eq!(server.disk.stats().copies.get(), 0);
    assert_eq!(server.who("h1.example").await, AWAY);
    rig.switch.say(None);
    server.follow().await;
    assert_eq!(server.who("h1.example").await, "h1.example");
    server.kept(1).await;
    rig.switch.say(away());
    assert_eq!(server.who("h1.example").await, "h1.example");
    assert_eq!(server.who("h2.example").await, AWAY);
}

#[tokio::test]
async fn a_file_of_another_version_or_store_is_started_anew() {
    let mut rig = Rig::new();
    filled(&rig).await;
    rig.store = "another";
    starts_anew(&rig).await;

    for version in [1, 2, 4, 99] {
        let rig = Rig::new();
        filled(&rig).await;
        let other = rusqlite::Connection::open(rig.path()).unwrap();
        other.pragma_update(None, "user_version", version).unwrap();
        drop(other);
        starts_anew(&rig).await;
    }
}

#[tokio::test]
async fn copies_that_cannot_be_dropped_are_removed() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = rig.following().await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    // Nothing can be written any more.
    let forbid = |writer: &mut Writer| {
        let connection = writer.connection.as_ref().unwrap();
        connection.pragma_update(None, "query_only", true).unwrap();
    };
    server.disk.inner.ask(forbid).await.unwrap();
    rig.put("b.example").await;
    server.follow().await;
    server.kept(0).await;
    rig.switch.say(away());
    assert_eq!(server.who("a.example").await, AWAY);
    drop(server);
    let server = rig.server().await;
    assert_eq!(server.who("a.example").await, AWAY);
}
