//! Reads of the texts in the catalog, shared by all questions that wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sekisho_certs::metrics::Counter;
use sekisho_certs::{ChallengeSource, LogLimiter};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

/// Texts by name.
pub(super) type Texts = HashMap<String, Vec<String>>;

/// Reader of all texts at once.
#[derive(Debug)]
pub(super) struct Reader {
    source: Arc<dyn ChallengeSource>,
    /// Reads that have begun.
    begun: AtomicU64,
    last: Mutex<Last>,
    reads: Counter,
    log: LogLimiter,
}

/// Last read that has ended.
#[derive(Debug)]
struct Last {
    /// Its number among all that have begun, from 1 on.
    number: u64,
    /// What it found; none if it failed.
    texts: Option<Arc<Texts>>,
    /// When the next one may begin.
    next: Instant,
}

impl Reader {
    pub(super) fn new(source: Arc<dyn ChallengeSource>) -> Self {
        Self {
            source,
            begun: AtomicU64::new(0),
            last: Mutex::new(Last {
                number: 0,
                texts: None,
                next: Instant::now(),
            }),
            reads: Counter::default(),
            log: LogLimiter::default(),
        }
    }

    /// Returns the counter of reads.
    pub(super) fn reads(&self) -> Counter {
        self.reads.clone()
    }

    /// Returns the texts by a read that begins after this call; none if it fails. Reads
    /// begin [`PAUSE`] apart, however many call: the first that waits reads for the others.
    pub(super) async fn texts(&self) -> Option<Arc<Texts>> {
        // Relaxed: the lock orders the reads; of a read that begins at this moment, either
        // number is right.
        let before = self.begun.load(Ordering::Relaxed);
        let mut last = self.last.lock().await;
        if last.number > before {
            return last.texts.clone();
        }
        sleep_until(last.next).await;
        last.next = Instant::now() + PAUSE;
        let number = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.reads.inc();
        let texts = self.read().await.map(Arc::new);
        // Only now: a caller that goes away before leaves the read to the next one.
        (last.number, last.texts) = (number, texts.clone());
        texts
    }

    async fn read(&self) -> Option<Texts> {
        let read = timeout(DEADLINE, self.source.texts()).await;
        let why = match read {
            Ok(Ok(listed)) => {
                let mut texts = Texts::new();
                for one in listed {
                    texts.entry(one.name).or_default().push(one.value);
                }
                return Some(texts);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {DEADLINE:?}"),
        };
        if let Some(suppressed) = self.log.allow() {
            tracing::warn!(why, suppressed, "challenges of DNS-01 are not answered");
        }
        None
    }
}

/// Time between the begins of two reads: five a second at most.
const PAUSE: Duration = Duration::from_millis(200);
/// Bound of a read. Resolvers ask again after some seconds.
const DEADLINE: Duration = Duration::from_secs(3);
