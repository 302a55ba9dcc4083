//! Reads of the texts in the catalog, shared by all questions that wait.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::metrics::Counter;
use sekisho_certs::{ChallengeSource, Texts};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

/// Reader of all texts at once.
#[derive(Debug)]
pub(super) struct Reader {
    source: Arc<dyn ChallengeSource>,
    last: Mutex<Last>,
    pub(super) reads: Counter,
}

/// Last read that has ended.
#[derive(Debug)]
struct Last {
    began: Instant,
    /// Texts that the last read found; none if it failed.
    texts: Option<Arc<Texts>>,
    /// When the next one may begin.
    next: Instant,
}

impl Reader {
    pub(super) fn new(source: Arc<dyn ChallengeSource>) -> Self {
        let now = Instant::now();
        Self {
            source,
            last: Mutex::new(Last {
                began: now,
                texts: None,
                next: now,
            }),
            reads: Counter::default(),
        }
    }

    /// Returns the texts by a read that begins after this call; none if it fails. Reads
    /// begin [`PAUSE`] apart, however many call: the first that waits reads for the others.
    pub(super) async fn texts(&self) -> Option<Arc<Texts>> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if last.began > asked {
            return last.texts.clone();
        }
        sleep_until(last.next).await;
        let began = Instant::now();
        last.next = began + PAUSE;
        self.reads.inc();
        let texts = self.source.texts().await.inspect_err(|error| {
            // An outage of the store is told elsewhere, and clients choose how often this is.
            tracing::debug!(%error, "challenges of DNS-01 are not answered");
        });
        let texts = texts.ok().map(Arc::new);
        // Only now: a caller that goes away before leaves the read to the next one.
        (last.began, last.texts) = (began, texts.clone());
        texts
    }
}

/// Time between the begins of two reads: five a second at most.
const PAUSE: Duration = Duration::from_millis(200);
