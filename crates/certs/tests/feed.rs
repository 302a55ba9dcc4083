//! The feed between a catalog and a lookup: changes arrive, gaps start over,
//! failures are told.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::store::memory::Memory;
use sekisho_certs::store::{ChangePage, Document, Expect, LogId, Position, Subject, What, Write};
use sekisho_certs::{
    Apply, Catalog, Clock, DocumentEvent, Feed, FeedState, HostPattern, HostRecord,
};
use tokio::time::{pause, sleep, timeout};

/// Remembers what the feed told it.
#[derive(Default)]
struct Told {
    applied: Mutex<Option<Position>>,
    hosts: Mutex<Vec<String>>,
    restarts: Mutex<Vec<u64>>,
    healthy: AtomicBool,
}

impl Apply for Told {
    fn applied(&self) -> Option<Position> {
        *self.applied.lock().unwrap()
    }

    fn restart(&self, position: Position) {
        *self.applied.lock().unwrap() = Some(position);
        self.restarts.lock().unwrap().push(position.number);
    }

    fn apply(&self, page: &ChangePage) {
        let mut applied = self.applied.lock().unwrap();
        let position = applied.as_mut().unwrap();
        for change in &page.changes {
            assert_eq!(
                change.number,
                position.number + 1,
                "no change is missing or told twice"
            );
            assert_eq!(change.what, What::Put);
            position.number = change.number;
            if let Subject::Host(pattern) = &change.subject {
                self.hosts.lock().unwrap().push(pattern.to_string());
            }
        }
    }

    fn feed_is(&self, state: FeedState) {
        self.healthy
            .store(state == FeedState::Healthy, Ordering::SeqCst);
    }
}

impl Told {
    async fn until(&self, what: impl Fn(&Self) -> bool) {
        let come = async {
            while !what(self) {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(10), come)
            .await
            .expect("it comes");
    }

    fn number(&self) -> Option<u64> {
        self.applied().map(|position| position.number)
    }
}

fn host(name: &str) -> Write {
    Write::PutHost(
        HostRecord::new(HostPattern::parse(name).unwrap()),
        Expect::Any,
    )
}

#[tokio::test]
async fn changes_arrive_in_order_and_none_is_missing() {
    pause();
    let catalog = Arc::new(Memory::new(Clock::System));
    catalog.write(vec![host("before.test")]).await.unwrap();
    let told = Arc::new(Told::default());
    let feed = tokio::spawn(Feed::new(catalog.clone()).run(told.clone()));
    told.until(|told| told.number() == Some(1)).await;
    assert_eq!(
        *told.restarts.lock().unwrap(),
        [1],
        "what came before is not replayed"
    );
    // More than two pages at once.
    let many = (0..2500).map(|n| host(&format!("h{n}.test"))).collect();
    catalog.write(many).await.unwrap();
    told.until(|told| told.number() == Some(2501)).await;
    assert_eq!(told.hosts.lock().unwrap().len(), 2500);
    assert!(told.healthy.load(Ordering::SeqCst));
    feed.abort();
}

#[tokio::test]
async fn a_log_that_does_not_continue_starts_over() {
    pause();
    let catalog = Arc::new(Memory::new(Clock::System));
    let told = Arc::new(Told::default());
    // As after a restore: another log, further on.
    *told.applied.lock().unwrap() = Some(Position {
        log: LogId([1; 16]),
        number: 700,
    });
    let feed = Feed::new(catalog.clone());
    let mut documents = feed.documents();
    let task = tokio::spawn(feed.run(told.clone()));
    told.until(|told| told.number() == Some(0)).await;
    assert_eq!(documents.recv().await.unwrap(), DocumentEvent::All);
    task.abort();
}

#[tokio::test]
async fn documents_are_announced() {
    pause();
    let catalog = Arc::new(Memory::new(Clock::System));
    let told = Arc::new(Told::default());
    let feed = Feed::new(catalog.clone());
    let mut documents = feed.documents();
    let task = tokio::spawn(feed.run(told.clone()));
    told.until(|told| told.number() == Some(0)).await;
    assert_eq!(documents.recv().await.unwrap(), DocumentEvent::All);
    let document = Document {
        kind: "test".into(),
        key: "one".into(),
        bytes: sekisho_certs::Protected::Sealed(sekisho_certs::SealedBytes {
            key_id: 1,
            nonce: [0; 12],
            bytes: vec![1, 2, 3],
        }),
        expires: None,
        version: 0,
    };
    catalog
        .write(vec![Write::PutDocument(document, Expect::Absent)])
        .await
        .unwrap();
    let event = timeout(Duration::from_secs(10), documents.recv())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        event,
        DocumentEvent::Changed {
            kind: "test".into(),
            key: "one".into()
        }
    );
    task.abort();
}
