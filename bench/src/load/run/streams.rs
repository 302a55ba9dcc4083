//! Phases over HTTP/2.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tokio::time::sleep;

use super::{Budget, Run, all, finished};
use crate::load::failure::Failure;
use crate::load::multiplexed::Multiplexed;
use crate::load::tally::{Outcome, Tally};

impl Run {
    /// Opens as many HTTP/2 connections as `concurrency` says, and sends one
    /// request on each.
    pub(crate) async fn multiplexed(&self) -> Result<Vec<Multiplexed>> {
        let mut open = Vec::with_capacity(self.concurrency);
        for _ in 0..self.concurrency {
            let host = self.next_name();
            let failed = |failure: Failure| anyhow!("{host}: {}", failure.kind());
            let stream = self.client.open(&host).await.map_err(failed)?;
            let path = self.path.as_deref().unwrap_or("/");
            let connection = Multiplexed::open(stream, path, &host).await;
            let connection = connection.map_err(failed)?;
            self.client
                .bounded(connection.request())
                .await
                .map_err(failed)?;
            open.push(connection);
        }
        Ok(open)
    }

    /// Sends requests on this many streams of each connection at a time, until the
    /// bound is met.
    pub(crate) async fn streams(
        self: &Rc<Self>,
        connections: &[Multiplexed],
        streams: usize,
        count: Option<u64>,
        seconds: Option<f64>,
    ) -> Result<Outcome> {
        let tally = Rc::new(RefCell::new(Tally::new()?));
        let budget = Rc::new(Budget::new(count, seconds));
        let start = Instant::now();
        let each = connections.iter().cloned();
        all(each
            .flat_map(|one| std::iter::repeat_n(one, streams))
            .map(|one| {
                let (run, tally, budget) = (self.clone(), tally.clone(), budget.clone());
                async move {
                    while budget.take() {
                        let begun = Instant::now();
                        match run.client.bounded(one.request()).await {
                            Ok(()) => tally.borrow_mut().operation(begun.elapsed()),
                            Err(failure) => {
                                tally.borrow_mut().failure(&failure, "");
                                return;
                            }
                        }
                    }
                }
            }))
        .await?;
        Ok(finished(tally)?.outcome(start.elapsed()))
    }

    /// Holds the connections for this time, and counts those that the server
    /// ended.
    pub(crate) async fn hold_multiplexed(
        &self,
        connections: &[Multiplexed],
        seconds: Option<f64>,
    ) -> Result<Outcome> {
        let start = Instant::now();
        let held = Duration::from_secs_f64(seconds.unwrap_or(0.0));
        // The connections' tasks read what has arrived meanwhile.
        sleep(held.max(ENDS_ARE_READ)).await;
        let mut tally = Tally::new()?;
        for connection in connections {
            if connection.is_ended() {
                tally.failure(&Failure::Response("closed while idle"), "");
            } else {
                tally.operation(start.elapsed());
            }
        }
        Ok(tally.outcome(start.elapsed()))
    }
}

/// Time in which a thousand tasks read once.
const ENDS_ARE_READ: Duration = Duration::from_millis(100);
