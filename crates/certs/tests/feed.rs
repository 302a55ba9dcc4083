//! The feed between a catalog and its followers: pages arrive in order, a log
//! that does not continue starts everything over, what hangs delays nobody.
#![allow(clippy::unwrap_used)]

#[path = "feed/followers.rs"]
mod followers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sekisho_certs::Seen;
use sekisho_certs::feed::CACHE_TIMEOUT;
use sekisho_certs::store::{Document, DocumentId, LogId, LogPosition, Precondition, Write};
use sekisho_certs::{
    Batch, Catalog, ChangeLog, Clock, DocumentEvent, Documents, Feed, HostPattern, HostRecord,
    SealedBytes,
};
use sekisho_testkit::Memory;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use self::followers::{Hung, Pages, Told, until};

fn host(name: &str) -> Write<SealedBytes> {
    Write::PutHost(
        HostRecord::new(HostPattern::parse(name).unwrap()),
        Precondition::Any,
    )
}

/// A catalog in memory, what has been seen of it, and who is told.
struct Rig {
    catalog: Arc<Memory>,
    seen: Arc<Seen>,
    told: Arc<Told>,
}

impl Rig {
    fn new() -> Self {
        Self {
            catalog: Arc::new(Memory::new(Clock::System)),
            seen: Arc::default(),
            told: Arc::default(),
        }
    }

    fn feed(&self) -> Feed {
        Feed::new(self.catalog.clone(), self.seen.clone()).then(self.told.clone())
    }

    async fn write(&self, names: impl IntoIterator<Item = String>) {
        let writes = names.into_iter().map(|name| host(&name)).collect();
        self.catalog.write(Batch::unchecked(writes)).await.unwrap();
    }

    async fn reaches(&self, number: u64) {
        until(|| self.told.number() == Some(number)).await;
    }
}

fn run(feed: Feed) -> AbortHandle {
    tokio::spawn(feed.run()).abort_handle()
}

#[tokio::test(start_paused = true)]
async fn changes_arrive_in_order_and_none_is_missing() {
    let rig = Rig::new();
    rig.write(["before.test".into()]).await;
    let feed = run(rig.feed());
    rig.reaches(1).await;
    let restarts = rig.told.restarts.lock().unwrap().clone();
    assert_eq!(restarts, [1], "what came before is not replayed");
    // More than two pages at once.
    rig.write((0..2500).map(|n| format!("h{n}.test"))).await;
    rig.reaches(2501).await;
    assert_eq!(rig.told.hosts.lock().unwrap().len(), 2500);
    assert!(rig.told.healthy.load(Ordering::SeqCst));
    assert_eq!(rig.seen.note().position.unwrap().number, 2501);
    feed.abort();
}

/// As after a restore: another log, further on.
#[tokio::test(start_paused = true)]
async fn another_log_starts_over() {
    let rig = Rig::new();
    let documents = Arc::new(Documents::default());
    let mut feed = rig.feed().then(documents.clone());
    let log = LogId([1; 16]);
    feed.begin_at(LogPosition {
        log,
        number: 700,
        mark: 0,
    })
    .await;
    assert_eq!(rig.told.number(), Some(700));
    let mut events = documents.subscribe();
    let before = rig.seen.note();
    let feed = run(feed);
    rig.reaches(0).await;
    assert_eq!(events.recv().await.unwrap(), DocumentEvent::All);
    assert!(rig.seen.note().epoch > before.epoch);
    feed.abort();
}

/// A server that answers from copies begins where they stand: the first
/// contact tells what was replaced since, and is no start-over.
#[tokio::test(start_paused = true)]
async fn a_feed_continues_from_the_position_of_the_copies() {
    let rig = Rig::new();
    rig.write(["a.test".into(), "b.test".into()]).await;
    let head = rig.catalog.head().await.unwrap();
    let mut feed = rig.feed();
    // All in one transaction, which has one mark.
    feed.begin_at(LogPosition { number: 1, ..head }).await;
    let feed = run(feed);
    rig.reaches(2).await;
    assert_eq!(*rig.told.hosts.lock().unwrap(), ["b.test"]);
    assert_eq!(*rig.told.restarts.lock().unwrap(), [1]);
    feed.abort();
}

#[tokio::test(start_paused = true)]
async fn a_page_with_a_hole_starts_over() {
    for missing in [2, 3, 4] {
        let rig = Rig::new();
        rig.write(["before.test".into()]).await;
        let pages = Arc::new(Pages::of(&rig.catalog));
        let feed = Feed::new(pages.clone(), rig.seen.clone()).then(rig.told.clone());
        let feed = run(feed);
        rig.reaches(1).await;
        pages.leave_out(missing);
        rig.write(["a.test".into(), "b.test".into(), "c.test".into()])
            .await;
        rig.reaches(4).await;
        let restarts = rig.told.restarts.lock().unwrap().clone();
        assert_eq!(restarts, [1, 4], "without change {missing}");
        feed.abort();
    }
}

/// A catalog that was set back under the same log ends before what was seen.
#[tokio::test(start_paused = true)]
async fn a_log_that_ends_before_what_was_seen_starts_over() {
    let rig = Rig::new();
    rig.write(["a.test".into()]).await;
    let feed = run(rig.feed());
    rig.reaches(1).await;
    // A write of this process that the restored catalog does not have.
    rig.seen.wrote(5);
    until(|| rig.told.restarts.lock().unwrap().len() == 2).await;
    assert_eq!(rig.seen.note().position.unwrap().number, 1);
    feed.abort();
}

/// A storage snapshot is restored under the identity of its log, and written
/// past the number that the reader has seen.
#[tokio::test(start_paused = true)]
async fn a_log_with_another_history_starts_over() {
    let rig = Rig::new();
    rig.write(["a.test".into()]).await;
    let restore = rig.catalog.saved();
    rig.write(["b.test".into()]).await;
    let mut feed = rig.feed();
    feed.begin_at(rig.catalog.head().await.unwrap()).await;
    restore();
    rig.write(["c.test", "d.test", "e.test"].map(String::from))
        .await;
    let feed = run(feed);
    rig.reaches(4).await;
    assert_eq!(*rig.told.restarts.lock().unwrap(), [2, 4]);
    feed.abort();
}

#[tokio::test(start_paused = true)]
async fn a_page_of_1000_changes_passes_caches_that_hang() {
    let rig = Rig::new();
    rig.write(["before.test".into()]).await;
    let hung = [Arc::new(Hung::default()), Arc::new(Hung::default())];
    let feed = Feed::new(rig.catalog.clone(), rig.seen.clone());
    let caches = hung.clone().map(|one| one as _);
    let feed = run(feed.first(caches, CACHE_TIMEOUT).then(rig.told.clone()));
    rig.reaches(1).await;
    for one in &hung {
        one.hang();
    }
    rig.write((0..1000).map(|n| format!("h{n}.test"))).await;
    let begun = Instant::now();
    rig.reaches(1001).await;
    let waited = begun.elapsed();
    assert!(waited >= Duration::from_millis(39), "{waited:?}: it waited");
    assert!(waited <= Duration::from_millis(60), "{waited:?}");
    for one in &hung {
        assert_eq!(one.late.load(Ordering::SeqCst), 1, "it is told");
    }
    feed.abort();
}

/// Until a cache had its time, the page does not count as seen: reads would
/// pass over a cache that is about to be as far.
#[tokio::test(start_paused = true)]
async fn a_page_is_seen_between_the_caches_and_the_lookup() {
    let rig = Rig::new();
    rig.write(["before.test".into()]).await;
    let cache = Arc::new(Hung::default());
    let told = Arc::new(Told::noting(&rig.seen));
    let feed = Feed::new(rig.catalog.clone(), rig.seen.clone());
    let feed = run(feed
        .first([cache.clone() as _], CACHE_TIMEOUT)
        .then(told.clone()));
    until(|| told.number() == Some(1)).await;
    cache.hang();
    rig.write(["a.test".into()]).await;
    until(|| cache.is_asked()).await;
    assert_eq!(rig.seen.note().position.unwrap().number, 1);
    until(|| told.number() == Some(2)).await;
    assert_eq!(*told.seen_at.lock().unwrap(), [2]);
    feed.abort();
}

#[tokio::test(start_paused = true)]
async fn a_log_that_hangs_is_a_broken_feed() {
    let rig = Rig::new();
    let pages = Arc::new(Pages::of(&rig.catalog));
    let feed = Feed::new(pages.clone(), rig.seen.clone());
    let feed = run(feed.then(rig.told.clone()));
    until(|| rig.told.healthy.load(Ordering::SeqCst)).await;
    pages.hang();
    let begun = Instant::now();
    until(|| !rig.told.healthy.load(Ordering::SeqCst)).await;
    assert!(begun.elapsed() < Duration::from_secs(4));
    feed.abort();
}

#[tokio::test(start_paused = true)]
async fn documents_are_announced() {
    let rig = Rig::new();
    let documents = Arc::new(Documents::default());
    let mut events = documents.subscribe();
    let feed = run(rig.feed().then(documents.clone()));
    assert_eq!(events.recv().await.unwrap(), DocumentEvent::All);
    let id = DocumentId::new("test", "one");
    let sealed = SealedBytes {
        key_id: 1,
        nonce: [0; 12],
        bytes: vec![1, 2, 3],
    };
    let put = Write::PutDocument(Document::new(id.clone(), sealed), Precondition::Absent);
    rig.catalog
        .write(Batch::unchecked(vec![put]))
        .await
        .unwrap();
    let event = timeout(Duration::from_secs(10), events.recv()).await;
    assert_eq!(event.unwrap().unwrap(), DocumentEvent::Changed(id));
    feed.abort();
}
