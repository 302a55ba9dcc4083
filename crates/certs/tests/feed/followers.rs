//! Followers that remember what they were told or hang, and a log that a test
//! damages.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::Seen;
use sekisho_certs::store::{BoxFuture, ChangeLog, ChangePage, LogPosition, Result, Subject, What};
use sekisho_certs::{FeedState, Follower};
use sekisho_testkit::Memory;
use tokio::time::{sleep, timeout};

/// Remembers what the feed told it.
#[derive(Default)]
pub(crate) struct Told {
    applied: Mutex<Option<LogPosition>>,
    pub(crate) hosts: Mutex<Vec<String>>,
    pub(crate) restarts: Mutex<Vec<u64>>,
    pub(crate) healthy: AtomicBool,
    seen: Option<Arc<Seen>>,
    /// The number that had been seen with each page.
    pub(crate) seen_at: Mutex<Vec<u64>>,
}

impl Told {
    pub(crate) fn noting(seen: &Arc<Seen>) -> Self {
        Self {
            seen: Some(Arc::clone(seen)),
            ..Self::default()
        }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        self.applied.lock().unwrap().map(|position| position.number)
    }
}

impl Follower for Told {
    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        if let Some(seen) = &self.seen {
            let number = seen.note().position.unwrap().number;
            self.seen_at.lock().unwrap().push(number);
        }
        let mut applied = self.applied.lock().unwrap();
        let position = applied.as_mut().unwrap();
        for change in &page.changes {
            let next = position.number + 1;
            assert_eq!(change.number, next, "no change is missing or told twice");
            assert_eq!(change.what, What::Put);
            position.number = change.number;
            position.mark = page.mark_last.unwrap();
            if let Subject::Host(pattern) = &change.subject {
                self.hosts.lock().unwrap().push(pattern.to_string());
            }
        }
        Box::pin(ready(()))
    }

    fn start_over(&self, at: LogPosition) -> BoxFuture<'_, ()> {
        *self.applied.lock().unwrap() = Some(at);
        self.restarts.lock().unwrap().push(at.number);
        Box::pin(ready(()))
    }

    fn feed_is(&self, state: FeedState) {
        self.healthy
            .store(state == FeedState::Healthy, Ordering::SeqCst);
    }
}

/// A cache whose calls never end once a test says so.
#[derive(Default)]
pub(crate) struct Hung {
    hangs: AtomicBool,
    asked: AtomicBool,
    pub(crate) late: AtomicUsize,
}

impl Hung {
    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    fn call(&self) -> BoxFuture<'_, ()> {
        if self.hangs.load(Ordering::SeqCst) {
            self.asked.store(true, Ordering::SeqCst);
            return Box::pin(pending());
        }
        Box::pin(ready(()))
    }
}

impl Follower for Hung {
    fn follow<'a>(&'a self, _: &'a ChangePage) -> BoxFuture<'a, ()> {
        self.call()
    }

    fn start_over(&self, _: LogPosition) -> BoxFuture<'_, ()> {
        self.call()
    }

    fn late(&self) {
        self.late.fetch_add(1, Ordering::SeqCst);
    }
}

/// The log of a catalog, without one change, or out of reach.
#[derive(Debug)]
pub(crate) struct Pages {
    inner: Arc<Memory>,
    missing: AtomicU64,
    hangs: AtomicBool,
}

impl Pages {
    pub(crate) fn of(inner: &Arc<Memory>) -> Self {
        Self {
            inner: Arc::clone(inner),
            missing: AtomicU64::new(0),
            hangs: AtomicBool::new(false),
        }
    }

    pub(crate) fn leave_out(&self, number: u64) {
        self.missing.store(number, Ordering::SeqCst);
    }

    pub(crate) fn hang(&self) {
        self.hangs.store(true, Ordering::SeqCst);
    }
}

impl ChangeLog for Pages {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        self.inner.head()
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(async move {
            if self.hangs.load(Ordering::SeqCst) {
                return pending().await;
            }
            let mut page = self.inner.changes(after, limit).await?;
            let missing = self.missing.load(Ordering::SeqCst);
            page.changes.retain(|change| change.number != missing);
            Ok(page)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.inner.changed()
    }
}

pub(crate) async fn until(mut is_so: impl FnMut() -> bool) {
    let come = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(10), come)
        .await
        .expect("it comes");
}
