//! Brings Redis to the present, and says when it may be asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Shared;
use super::server::{CachePosition, Space};
use crate::backoff::Backoff;
use crate::fault::{unavailable, within};
use sekisho_certs::Noted;
use sekisho_certs::lock;
use sekisho_certs::store::{LogPosition, Result};

/// Works whenever Redis was lost, at first too.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut delays = DELAYS.delays();
    let mut used_since = Instant::now();
    loop {
        shared.lost.notified().await;
        if used_since.elapsed() >= WELL_AFTER {
            delays.after_success();
        }
        if shared.failed.swap(false, Ordering::AcqRel) {
            sleep(delays.after_failure()).await;
        }
        let mut attempts = 1;
        while let Err(error) = shared.resync().await {
            if attempts == REPORTED {
                tracing::warn!(%error, "Redis before the store is passed over until it is back");
            }
            attempts += 1;
            sleep(delays.after_failure()).await;
        }
        used_since = Instant::now();
        if attempts > REPORTED {
            tracing::info!("Redis before the store is used again");
        }
    }
}

/// State of this server when a comparison with the log began.
#[derive(Clone, Copy)]
struct Baseline {
    at: LogPosition,
    epoch: u64,
    doubts: u64,
}

impl Shared {
    /// Ends when Redis is as far as this server and was compared with the log:
    /// a Redis that is further may be of a past that the catalog, restored
    /// from a backup, no longer had.
    async fn resync(&self) -> Result<()> {
        loop {
            let baseline = self.baseline()?;
            let catalog = self.id.get_or_try_init(|| self.catalog.id()).await?;
            let space = Arc::new(Space::new(*catalog, baseline.at.log));
            let state = self.server.state(&space);
            let Some((state, mark)) = within(self.timeouts.background, state).await? else {
                self.begin(&space, None).await?;
                continue;
            };
            if !self.catch_up(&state, mark, baseline).await? {
                continue;
            }
            // Lookups will wait for it no longer than this.
            within(self.timeouts.get, self.server.state(&space)).await?;
            if self.compared(state, baseline) {
                return Ok(());
            }
        }
    }

    /// Notes the state of this server before Redis and the log are read.
    fn baseline(&self) -> Result<Baseline> {
        let doubts = lock(&self.known).doubts;
        let Noted { position, epoch } = self.seen.note();
        let at = position.ok_or_else(|| unavailable("the log was not read yet"))?;
        Ok(Baseline { at, epoch, doubts })
    }

    /// Carries in one page of the log, or begins a new generation where the log
    /// has another history; true when Redis is as far as this server was.
    async fn catch_up(&self, state: &CachePosition, mark: u64, baseline: Baseline) -> Result<bool> {
        let page = match self.catalog.changes(state.number, PAGE).await {
            Ok(page) => page,
            // The state was right before, and nothing was seen since.
            Err(error) if error.is_retryable() && self.was_right(state, baseline) => {
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        if page.log != baseline.at.log || page.ends_before(baseline.at) {
            return Err(unavailable("the log starts over"));
        }
        let upto = LogPosition {
            log: page.log,
            number: state.number,
            mark,
        };
        if page.continued(upto).is_none() {
            self.begin(&state.space, Some(state)).await?;
            return Ok(false);
        }
        if page.changes.is_empty() {
            return Ok(true);
        }
        // If the state went back meanwhile, the next round sees it.
        let advance = self.server.advance(state, &page);
        within(self.timeouts.background, advance).await?;
        Ok(false)
    }

    /// Begins a generation at the end of the log.
    async fn begin(&self, space: &Space, instead: Option<&CachePosition>) -> Result<()> {
        let head = self.catalog.head().await?;
        if head.log != space.log {
            return Err(unavailable("the log starts over"));
        }
        let begin = self.server.begin(space, instead, head);
        within(self.timeouts.background, begin).await
    }

    /// Tells whether that state was compared before in this epoch, and is as far.
    fn was_right(&self, state: &CachePosition, baseline: Baseline) -> bool {
        let known = lock(&self.known);
        let is_it = |(compared, epoch): &(CachePosition, u64)| {
            compared.generation == state.generation && *epoch == baseline.epoch
        };
        known.compared.as_ref().is_some_and(is_it) && state.number >= baseline.at.number
    }

    /// Has Redis asked from now on; false if it has to be compared again.
    fn compared(&self, state: CachePosition, baseline: Baseline) -> bool {
        let mut known = lock(&self.known);
        let holds = known.doubts == baseline.doubts && self.seen.note().epoch == baseline.epoch;
        if holds {
            known.compared = Some((state, baseline.epoch));
            self.counts.usable(true);
        }
        holds
    }
}

/// Changes in one page: some 2,000 keys in a script, a few milliseconds.
const PAGE: usize = 1000;
/// An outage is logged once, if it is more than a connection that was closed.
const REPORTED: u32 = 3;
/// Between two attempts.
const DELAYS: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
/// Used for so long, Redis is taken for well: the next failure is a first one.
const WELL_AFTER: Duration = Duration::from_secs(10);
