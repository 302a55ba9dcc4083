//! Brings Redis to the present, and says when it may be asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::server::{Space, State};
use super::{Shared, in_time};
use crate::backoff::{Backoff, Delays};
use sekisho_certs::log::Noted;
use sekisho_certs::store::{LogPosition, Result, StoreError};

/// Works whenever Redis was lost, at first too.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut waits = Waits::default();
    loop {
        shared.lost.notified().await;
        if shared.failed.swap(false, Ordering::AcqRel) {
            sleep(waits.after(Instant::now())).await;
        }
        let mut attempts = 1;
        while let Err(error) = shared.resync().await {
            if attempts == REPORTED {
                tracing::warn!(%error, "Redis before the store is passed over until it is back");
            }
            attempts += 1;
            sleep(waits.after(Instant::now())).await;
        }
        if attempts > REPORTED {
            tracing::info!("Redis before the store is used again");
        }
    }
}

/// How long to leave a Redis alone that failed.
struct Waits {
    delays: Delays,
    failed: Option<Instant>,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            delays: DELAYS.delays(),
            failed: None,
        }
    }
}

impl Waits {
    /// The wait after a failure: longer each time, unless Redis did well for
    /// [`STEADY`].
    fn after(&mut self, now: Instant) -> Duration {
        let before = self.failed.replace(now);
        if before.is_some_and(|at| now.duration_since(at) >= STEADY) {
            self.delays.after_success();
        }
        self.delays.after_failure()
    }
}

/// Why a comparison with the log began.
#[derive(Clone, Copy)]
struct Begun {
    at: LogPosition,
    epoch: u64,
    doubts: u64,
    renews: bool,
}

impl Shared {
    /// Ends when Redis is as far as this server and was compared with the log:
    /// a Redis that is further may be of a past that the catalog, restored
    /// from a backup, no longer had.
    async fn resync(&self) -> Result<()> {
        loop {
            let begun = self.begun()?;
            let space = self.space(begun.at).await?;
            let state = self.server.state(&space);
            let Some(state) = in_time(self.timeouts.background, state).await? else {
                self.begin(&space, None, begun).await?;
                continue;
            };
            if begun.renews {
                self.begin(&space, Some(&state), begun).await?;
                continue;
            }
            if !self.catch_up(&space, &state, begun).await? {
                continue;
            }
            // Lookups will wait for it no longer than this.
            in_time(self.timeouts.get, self.server.state(&space)).await?;
            if self.compared(&state, begun) {
                return Ok(());
            }
        }
    }

    fn begun(&self) -> Result<Begun> {
        let known = self.known();
        let Noted { position, epoch } = self.seen.note();
        let at = position.ok_or_else(|| unavailable("the log was not read yet"))?;
        Ok(Begun {
            at,
            epoch,
            doubts: known.doubts,
            renews: known.renewed == Some(at.log),
        })
    }

    /// Carries in one page of the log, or begins a new generation where the
    /// log has none; true when Redis is as far as this server was.
    async fn catch_up(&self, space: &Space, state: &State, begun: Begun) -> Result<bool> {
        let page = match self.catalog.changes(state.upto, PAGE).await {
            Ok(page) => page,
            // It was right before, and nothing more has been seen since.
            Err(error) if error.is_retryable() && self.was_right(state, begun) => return Ok(true),
            Err(error) => return Err(error),
        };
        if page.log != begun.at.log || page.ends_before(begun.at) {
            return Err(unavailable("the log starts over"));
        }
        let reached = state.mark.and_then(|mark| {
            let number = state.upto;
            let log = begun.at.log;
            page.continued(LogPosition { log, number, mark })
        });
        if reached.is_none() {
            self.begin(space, Some(state), begun).await?;
            return Ok(false);
        }
        if page.changes.is_empty() {
            return Ok(true);
        }
        // If the state went back meanwhile, the next round sees it.
        let advance = self.server.advance(space, &state.generation, &page);
        in_time(self.timeouts.background, advance).await?;
        Ok(false)
    }

    /// Begins a generation at the end of the log.
    async fn begin(&self, space: &Space, instead: Option<&State>, begun: Begun) -> Result<()> {
        let head = self.catalog.head().await?;
        if head.log != begun.at.log {
            return Err(unavailable("the log starts over"));
        }
        let done = self.server.begin(space, instead, head);
        if in_time(self.timeouts.background, done).await? {
            let mut known = self.known();
            if known.doubts == begun.doubts {
                known.renewed = None;
            }
        }
        Ok(())
    }

    /// Whether that state was compared before in this epoch, and is as far.
    fn was_right(&self, state: &State, begun: Begun) -> bool {
        let known = self.known();
        let generation = known.generation.as_ref();
        let is_it = |(generation, epoch): &(_, u64)| {
            *generation == state.generation && *epoch == begun.epoch
        };
        generation.is_some_and(is_it) && state.upto >= begun.at.number
    }

    /// Has Redis asked from now on; false if it has to be compared again.
    fn compared(&self, state: &State, begun: Begun) -> bool {
        let mut known = self.known();
        let holds = known.doubts == begun.doubts && self.seen.note().epoch == begun.epoch;
        if holds {
            known.generation = Some((state.generation.clone(), begun.epoch));
            self.counts.usable(true);
        }
        holds
    }

    /// Where copies of that log lie.
    async fn space(&self, at: LogPosition) -> Result<Arc<Space>> {
        if let Some((log, space)) = &self.known().space
            && *log == at.log
        {
            return Ok(Arc::clone(space));
        }
        let space = Arc::new(Space::new(self.catalog.id().await?, at.log));
        self.known().space = Some((at.log, Arc::clone(&space)));
        Ok(space)
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.into())
}

/// Changes in one page: some 2,000 keys in a script, a few milliseconds.
const PAGE: usize = 1000;
/// An outage is logged once, if it is more than a connection that was closed.
const REPORTED: u32 = 3;
/// Between two attempts.
const DELAYS: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
/// Without a failure for so long, Redis is taken for well.
const STEADY: Duration = Duration::from_secs(10);
