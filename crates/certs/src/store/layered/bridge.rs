//! Brings the level to the present, and says when it may be asked.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::marks::Mark;
use super::{Shared, in_time};
use crate::store::redis::level::State;
use crate::store::{Position, Result, StoreError};

/// Works whenever the level was lost, at first too.
pub(super) async fn keep(shared: Arc<Shared>) {
    loop {
        let mut rest = SHORTEST_REST;
        let mut attempts = 1;
        while let Err(error) = shared.bridge().await {
            if attempts == TOLD {
                tracing::warn!(%error, "Redis before the store is passed over until it is back");
            }
            attempts += 1;
            sleep(rest).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
        shared.usable.store(true, Ordering::Release);
        shared.counts.usable(true);
        if attempts > TOLD {
            tracing::info!("Redis before the store is used again");
        }
        shared.lost.notified().await;
    }
}

impl Shared {
    /// Until the level is as far as this server.
    async fn bridge(&self) -> Result<()> {
        loop {
            let mark = self.contact().await?;
            let state = self.level.state(&mark.space);
            match in_time(self.waits.background, state).await? {
                Some(state) if state.upto >= mark.number => return Ok(()),
                Some(state) => self.catch_up(&mark, &state).await?,
                None => self.begin(&mark, None, mark.number).await?,
            }
        }
    }

    /// One page; or a new generation, where the log has none.
    async fn catch_up(&self, mark: &Mark, state: &State) -> Result<()> {
        let page = self.catalog.changes(state.upto, PAGE).await?;
        if page.log != mark.log {
            self.marks.saw(Position {
                log: page.log,
                number: page.last,
            });
            return Ok(());
        }
        if page.last < mark.number {
            return Err(unavailable("the log has lost what was seen"));
        }
        let Some(last) = page.changes.last().filter(|_| !page.gap) else {
            return self.begin(mark, Some(state), page.last).await;
        };
        let told = self
            .level
            .advance(&mark.space, state.upto, last.number, &page.changes);
        // If the state went back meanwhile, the next round sees it.
        in_time(self.waits.background, told).await.map(|_| ())
    }

    async fn begin(&self, mark: &Mark, instead: Option<&State>, at: u64) -> Result<()> {
        let begun = self.level.begin(&mark.space, instead, at);
        in_time(self.waits.background, begun).await
    }

    /// What is needed of the catalog to know where copies lie.
    async fn contact(&self) -> Result<Mark> {
        if let Some(mark) = self.marks.mark() {
            return Ok(mark);
        }
        self.marks.is(self.catalog.id().await?);
        self.marks.saw(self.catalog.position().await?);
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
