//! Open-loop pace: connections begin by the clock, however long earlier ones
//! take.

use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// Schedule of connections.
#[derive(Clone, Copy)]
pub(super) struct Pace {
    start: Instant,
    rate: NonZeroU32,
    most: u64,
}

impl Pace {
    /// Makes a schedule of `count` connections, or of those that are due within
    /// `seconds`.
    pub(super) fn new(rate: NonZeroU32, count: Option<u64>, seconds: Option<f64>) -> Self {
        let fitting = seconds.map(|seconds| (seconds * f64::from(rate.get())) as u64);
        let most = count
            .unwrap_or(MAX_NUMBER)
            .min(fitting.unwrap_or(MAX_NUMBER));
        Self {
            start: Instant::now(),
            rate,
            most: most.min(MAX_NUMBER),
        }
    }

    /// Sends the time of each connection once it has come.
    ///
    /// A thread of its own sleeps between two: the runtime's timers have steps of 1 ms, which
    /// would begin several connections at once.
    pub(super) fn begin(self) -> Result<UnboundedReceiver<Instant>> {
        let (sender, arrivals) = unbounded_channel();
        let sending = move || {
            for number in 0..self.most {
                let due = self.due(number);
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if sender.send(due).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("pace".into()).spawn(sending);
        thread.context("cannot start a thread")?;
        Ok(arrivals)
    }

    /// Returns the length of the whole schedule, including the turn of its last
    /// connection.
    pub(super) fn duration(&self) -> Duration {
        self.due(self.most) - self.start
    }

    fn due(&self, number: u64) -> Instant {
        self.start + Duration::from_secs_f64(number as f64 / f64::from(self.rate.get()))
    }
}

/// Bound of the schedule: 136 years at one connection per second.
const MAX_NUMBER: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_are_due_one_after_the_other() {
        let rate = NonZeroU32::new(1_000).unwrap();
        let pace = Pace::new(rate, None, Some(60.0));
        assert_eq!(pace.duration(), Duration::from_secs(60));
        let few = Pace::new(rate, Some(3), Some(60.0));
        let mut arrivals = few.begin().unwrap();
        for number in 0..3 {
            let due = arrivals.recv().await.unwrap();
            assert_eq!(due - few.start, Duration::from_millis(number));
            assert!(Instant::now() >= due);
        }
        assert!(arrivals.recv().await.is_none());
    }
}
