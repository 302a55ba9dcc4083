//! Open-loop phase: connections begin at the times of a schedule.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;

use anyhow::Result;
use tokio::sync::Mutex;

use super::{Run, all, finished};
use crate::load::failure::Failure;
use crate::load::pace::Pace;
use crate::load::tally::{Outcome, Tally};

impl Run {
    /// Makes connections at the times of the schedule, within the bounds. A connection waits
    /// if as many are open as may be, and has failed if it waits longer than the deadline.
    pub(crate) async fn paced(
        self: &Rc<Self>,
        rate: NonZeroU32,
        count: Option<u64>,
        seconds: Option<f64>,
    ) -> Result<Outcome> {
        let tally = Rc::new(RefCell::new(Tally::new()?));
        let pace = Pace::new(rate, count, seconds);
        let arrivals = Rc::new(Mutex::new(pace.begin()?));
        all((0..self.concurrency).map(|_| {
            let (run, tally, arrivals) = (self.clone(), tally.clone(), arrivals.clone());
            async move {
                let mut buffer = Vec::new();
                loop {
                    let Some(due) = arrivals.lock().await.recv().await else {
                        return;
                    };
                    let late = due.elapsed();
                    if late > run.client.deadline() {
                        tally.borrow_mut().failure(&Failure::NotBegun, "");
                        continue;
                    }
                    tally.borrow_mut().lag(late);
                    run.visit_next(late, &tally, &mut buffer).await;
                }
            }
        }))
        .await?;
        // Connections may end after the schedule: the rate counts their starts.
        let tally = finished(tally)?;
        let counts = match self.counts {
            true => tally.counts(),
            false => Vec::new(),
        };
        Ok(Outcome {
            counts,
            ..tally.outcome(pace.duration())
        })
    }
}
