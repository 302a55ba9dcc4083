//! Brings the level to the present, and says when it may be asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::marks::Mark;
use super::{Shared, in_time};
use crate::redis::level::State;
use sekisho_certs::store::{LogPosition, Result, StoreError};

/// Works whenever the level was lost, at first too.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut rests = Rests::default();
    loop {
        // What failed until now is why it is done.
        shared.failed.store(false, Ordering::Release);
        let mut attempts = 1;
        while let Err(error) = shared.bridge().await {
            if attempts == TOLD {
                tracing::warn!(%error, "Redis before the store is passed over until it is back");
            }
            attempts += 1;
            sleep(rests.after(Instant::now())).await;
        }
        shared.usable.store(true, Ordering::Release);
        shared.counts.usable(true);
        if attempts > TOLD {
            tracing::info!("Redis before the store is used again");
        }
        shared.lost.notified().await;
        if shared.failed.load(Ordering::Acquire) {
            sleep(rests.after(Instant::now())).await;
        }
    }
}

/// How long to leave a level alone that failed.
#[derive(Default)]
struct Rests {
    next: Duration,
    failed: Option<Instant>,
}

impl Rests {
    /// It failed now: longer each time, unless it did well for a while.
    fn after(&mut self, now: Instant) -> Duration {
        let before = self.failed.replace(now);
        let rest = match before.is_some_and(|at| now.duration_since(at) < STEADY) {
            true => self.next,
            false => SHORTEST_REST,
        };
        self.next = (rest * 2).min(LONGEST_REST);
        rest
    }
}

impl Shared {
    /// Until the level is as far as this server, and was held against the
    /// log: one that is further may be of a past that the catalog, restored
    /// from a backup, no longer had.
    async fn bridge(&self) -> Result<()> {
        loop {
            let mark = self.contact().await?;
            let state = self.level.state(&mark.space);
            let Some(state) = in_time(self.waits.background, state).await? else {
                self.begin(&mark, None, mark.number).await?;
                continue;
            };
            if !self.catch_up(&mark, &state).await? {
                continue;
            }
            // Look-ups will wait for it no longer than this.
            in_time(self.waits.look, self.level.state(&mark.space)).await?;
            if self.marks.bridged(&mark, &state) {
                return Ok(());
            }
        }
    }

    /// One page, or a new generation where the log has none; true when the
    /// level is as far as the mark.
    async fn catch_up(&self, mark: &Mark, state: &State) -> Result<bool> {
        let page = match self.catalog.changes(state.upto, PAGE).await {
            Ok(page) => page,
            // It was right before, and nothing more has been seen since.
            Err(error) if error.is_retryable() && mark.trusts(state) => return Ok(true),
            Err(error) => return Err(error),
        };
        if page.log != mark.log || page.last < mark.number {
            let reached = LogPosition {
                log: page.log,
                mark: 0,
                number: page.last,
            };
            self.marks.saw(Some(mark), reached, page.last);
            return Ok(false);
        }
        if page.gap || mark.went_back {
            self.begin(mark, Some(state), page.last).await?;
            return Ok(false);
        }
        let Some(last) = page.changes.last() else {
            return Ok(true);
        };
        let told = self.level.advance(
            &mark.space,
            &state.generation,
            state.upto,
            last.number,
            &page.changes,
        );
        // If the state went back meanwhile, the next round sees it.
        Ok(in_time(self.waits.background, told).await? && last.number >= mark.number)
    }

    async fn begin(&self, mark: &Mark, instead: Option<&State>, at: u64) -> Result<()> {
        let begun = self.level.begin(&mark.space, instead, at);
        if in_time(self.waits.background, begun).await? {
            self.marks.begun(mark);
        }
        Ok(())
    }

    /// What is needed of the catalog to know where copies lie.
    async fn contact(&self) -> Result<Mark> {
        if let Some(mark) = self.marks.mark() {
            return Ok(mark);
        }
        self.marks.is(self.catalog.id().await?);
        let position = self.catalog.head().await?;
        self.marks.saw(None, position, position.number);
        let nowhere = || unavailable("the catalog has no place in its log");
        self.marks.mark().ok_or_else(nowhere)
    }
}

fn unavailable(why: &str) -> StoreError {
    StoreError::Unavailable(why.into())
}

/// Changes in one page: some 2,000 keys in a script, a few milliseconds.
const PAGE: usize = 1000;
/// An outage is told once, if it is more than a connection that was closed.
const TOLD: u32 = 3;
/// Between two attempts.
const SHORTEST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// Without a failure for so long, it is taken for well.
const STEADY: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_until_it_is_steady() {
        let (mut rests, mut now) = (Rests::default(), Instant::now());
        for (later, rest) in [
            (0, 20),
            (0, 40),
            (9_000, 80),
            (0, 160),
            (0, 320),
            (0, 640),
            (0, 1000),
            (9_999, 1000),
            (10_000, 20),
            (1000, 40),
        ] {
            now += Duration::from_millis(later);
            assert_eq!(rests.after(now), Duration::from_millis(rest));
        }
    }
}
