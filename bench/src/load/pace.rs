//! Open-loop pace: connections begin by the clock, however long earlier ones
//! take.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Schedule of the next connections.
pub(super) struct Pace {
    start: Instant,
    rate: NonZeroU32,
    begun: Cell<u64>,
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
            begun: Cell::new(0),
            most: most.min(MAX_NUMBER),
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        let number = self.begun.get();
        // A client that is late at the end begins no further connection.
        if number >= self.most || Instant::now() > self.due(self.most) {
            return None;
        }
        self.begun.set(number + 1);
        Some(self.due(number))
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

    #[test]
    fn connections_are_due_one_after_the_other() {
        let rate = NonZeroU32::new(1_000).unwrap();
        let pace = Pace::new(rate, None, Some(60.0));
        let due: Vec<Duration> = (0..3).map(|_| pace.next().unwrap() - pace.start).collect();
        assert_eq!(due, [0, 1, 2].map(Duration::from_millis));
        assert_eq!(pace.duration(), Duration::from_secs(60));
        let few = Pace::new(rate, Some(1), Some(60.0));
        assert!(few.next().is_some() && few.next().is_none());
    }
}
