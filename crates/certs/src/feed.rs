//! Follows a catalog's change log and hands each page to those who cache what
//! the catalog said.
//!
//! # The way of a change
//!
//! ```text
//!  crates/stores/src                        crates/certs/src
//!  ─────────────────                        ────────────────
//!  plan.rs        what a batch changes
//!  postgres/write.rs, sqlite/write.rs       one transaction: lock the counter, write,
//!    │                                      log, notify; in PostgreSQL, one that announces
//!    │                                      nothing locks only its own rows
//!  postgres/listen.rs, sqlite/watch.rs  ──► feed.rs   reads pages after the last one
//!                                             │
//!    redis_cache.rs, disk_cache.rs  ◄─────────┤ 1 both caches at once, 40 ms at most
//!                                             ├ 2 store/seen.rs: no older answer counts now
//!                                             ├ 3 seal/sealer.rs: schedules a check of which
//!                                             │   master key seals
//!                                             ├ 4 lookup/apply.rs: drops entries, absences and
//!                                             │   aliases, marks wildcards shadowed and
//!                                             │   credentials superseded
//!                                             └ 5 feed/documents.rs: server's lookup/tickets.rs
//!                                                 reads its keys again
//! ```

mod documents;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{sleep, timeout};

pub use self::documents::{DocumentEvent, Documents};
use crate::store::{
    BoxFuture, ChangeLog, ChangePage, FeedState, Follower, LogPosition, Result, Seen, StoreError,
};

/// The task that follows the log. It runs on the background runtime until it
/// is dropped.
pub struct Feed {
    log: Arc<dyn ChangeLog>,
    seen: Arc<Seen>,
    /// Caches outside of the process's memory: asked together, and not waited
    /// for longer than `first_timeout`.
    first: Vec<Arc<dyn Follower>>,
    first_timeout: Duration,
    /// Followers inside of this process, asked one by one behind `first`.
    then: Vec<Arc<dyn Follower>>,
    /// The last position that was handed on; none before the first contact.
    at: Option<LogPosition>,
}

impl Feed {
    /// Follows this log. A page counts as seen once the first followers had it.
    #[must_use]
    pub fn new(log: Arc<dyn ChangeLog>, seen: Arc<Seen>) -> Self {
        Self {
            log,
            seen,
            first: Vec::new(),
            first_timeout: CACHE_TIMEOUT,
            then: Vec::new(),
            at: None,
        }
    }

    /// Hands each page to these caches first, to all at the same time, and waits
    /// for them no longer than `within`: [`CACHE_TIMEOUT`] in a server.
    #[must_use]
    pub fn first(
        mut self,
        caches: impl IntoIterator<Item = Arc<dyn Follower>>,
        within: Duration,
    ) -> Self {
        self.first.extend(caches);
        self.first_timeout = within;
        self
    }

    /// Hands each page to this one when all before have had it. Its calls must
    /// not wait for anything outside of this process.
    #[must_use]
    pub fn then(mut self, follower: Arc<dyn Follower>) -> Self {
        self.then.push(follower);
        self
    }

    /// Begins behind `at` instead of at the end of the log. A server that
    /// answers from copies of that position then learns at the first contact
    /// what was replaced since.
    ///
    /// The first followers are left out. Each keeps its own position over a
    /// restart: the file of the disk cache stands at `at`, and Redis is compared
    /// with the log at the first contact.
    pub async fn begin_at(&mut self, at: LogPosition) {
        self.seen.restart(at);
        for follower in &self.then {
            follower.start_over(at).await;
        }
        self.at = Some(at);
    }

    /// Follows until it is dropped: at each hint of the catalog, and from time
    /// to time without one.
    pub async fn run(mut self) {
        let mut broken = false;
        loop {
            // The hint is made before the read, so that a later change wakes it.
            let log = Arc::clone(&self.log);
            let hint = log.changed();
            match self.read().await {
                Ok(()) => {
                    if std::mem::take(&mut broken) {
                        tracing::info!("the change feed is back");
                    }
                    // A hint, or its absence for so long: read again either way.
                    let _ = timeout(POLL_INTERVAL, hint).await;
                }
                Err(error) => {
                    if !std::mem::replace(&mut broken, true) {
                        tracing::warn!(%error, "the change feed is broken: cached answers age until it is back");
                    }
                    sleep(RETRY_DELAY).await;
                }
            }
        }
    }

    /// Reads the log to its end once, and reports whether that went well.
    ///
    /// # Errors
    /// The error of reading the log.
    pub async fn read(&mut self) -> Result<()> {
        let read = self.catch_up().await;
        let state = match read {
            Ok(()) => FeedState::Healthy,
            Err(_) => FeedState::Broken,
        };
        for follower in self.first.iter().chain(&self.then) {
            follower.feed_is(state);
        }
        read
    }

    async fn catch_up(&mut self) -> Result<()> {
        let Some(mut at) = self.at else {
            let head = in_time(self.log.head()).await?;
            self.start_over(head).await;
            return Ok(());
        };
        loop {
            // Noted before the call: the answer is at least as new.
            let seen = self.seen.note().position;
            let page = in_time(self.log.changes(at.number, MAX_PAGE)).await?;
            let continued = page.continued(at);
            let set_back = seen.is_some_and(|seen| page.ends_before(seen));
            let Some(reached) = continued.filter(|_| !set_back) else {
                tracing::warn!("the change log does not continue here: everything is read again");
                let head = in_time(self.log.head()).await?;
                self.start_over(head).await;
                return Ok(());
            };
            if page.changes.is_empty() {
                return Ok(());
            }
            at = reached;
            self.hand_on(&page, at).await;
            if page.changes.len() < MAX_PAGE {
                return Ok(());
            }
        }
    }

    /// Hands on a page that ends at `at`.
    async fn hand_on(&mut self, page: &ChangePage, at: LogPosition) {
        self.ask_first(|cache| cache.follow(page)).await;
        self.seen.raise(at);
        for follower in &self.then {
            follower.follow(page).await;
        }
        self.at = Some(at);
    }

    async fn start_over(&mut self, at: LogPosition) {
        // Positions noted before count no longer, in the caches neither.
        self.seen.restart(at);
        self.ask_first(|cache| cache.start_over(at)).await;
        for follower in &self.then {
            follower.start_over(at).await;
        }
        self.at = Some(at);
    }

    async fn ask_first<'a>(&'a self, call: impl Fn(&'a dyn Follower) -> BoxFuture<'a, ()>) {
        let calls = self.first.iter().map(|cache| async {
            if timeout(self.first_timeout, call(cache.as_ref()))
                .await
                .is_err()
            {
                cache.late();
            }
        });
        join_all(calls).await;
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed")
            .field("at", &self.at)
            .field("first", &self.first.len())
            .field("then", &self.then.len())
            .finish_non_exhaustive()
    }
}

async fn in_time<T>(call: BoxFuture<'_, Result<T>>) -> Result<T> {
    let answer = timeout(READ_TIMEOUT, call).await;
    answer.unwrap_or(Err(StoreError::TimedOut(READ_TIMEOUT)))
}

/// Time that all caches have together for one page. Every server promises to
/// have a change within 100 ms, even if a cache hangs:
///
/// - at most 40 ms until the log is read, if a store without notifications is
///   polled (`POLL` in `stores/postgres/listen.rs`; SQLite's watch takes 25 ms);
/// - at most 40 ms for the caches;
/// - the other 20 ms for reading the page and dropping what changed.
pub const CACHE_TIMEOUT: Duration = Duration::from_millis(40);
/// Changes in one page: bounds the time for which the lookup's lock is held.
const MAX_PAGE: usize = 1000;
/// How long one read of the log may take.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait without a hint.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long to wait after a failure.
const RETRY_DELAY: Duration = Duration::from_millis(250);
