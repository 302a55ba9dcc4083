//! Schedule of an accelerated month: how many hosts there are, and how many visitors come.

use std::f64::consts::TAU;
use std::ops::Range;
use std::time::Duration;

/// Month that begins with so many hosts and ends with so many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) from: usize,
    to: usize,
    days: u32,
    day: Duration,
}

/// Certificates that have been written until some time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Written {
    pub(super) hosts: usize,
    /// Certificates that took the place of earlier ones.
    renewals: usize,
}

/// Part of a day at one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) length: Duration,
    /// Connections per second.
    pub(super) rate: u32,
}

impl Plan {
    pub(super) fn new(from: usize, times: usize, short: bool) -> Self {
        let (days, day) = if short { SHORT } else { FULL };
        let to = from * times;
        Self {
            from,
            to,
            days,
            day,
        }
    }

    fn length(&self) -> Duration {
        self.day * self.days
    }

    /// Returns the days since the beginning.
    pub(super) fn days(&self, at: Duration) -> f64 {
        at.as_secs_f64() / self.day.as_secs_f64()
    }

    /// Returns how many certificates are due. Each of the first hosts has one that is valid for
    /// 90 days and is renewed after 60; those that were added are not due within the month.
    pub(super) fn due(&self, at: Duration) -> Written {
        let days = self.days(at).min(f64::from(self.days));
        let added = (self.to - self.from) as f64 * days / f64::from(self.days);
        Written {
            hosts: self.from + added as usize,
            renewals: (self.from as f64 * days / RENEWED_AFTER) as usize,
        }
    }

    /// Returns the numbers of the hosts whose certificates are written between both.
    pub(super) fn between(&self, one: Written, other: Written) -> impl Iterator<Item = usize> {
        let Range { start, end } = one.renewals..other.renewals;
        let from = self.from;
        // Far apart: hosts with low numbers have most visitors.
        let renewed = (start..end).map(move |number| number * STRIDE % from);
        (one.hosts..other.hosts).chain(renewed)
    }

    /// Returns the step that begins at this time; None at the end of the month.
    pub(super) fn step(&self, at: Duration) -> Option<Step> {
        let step = self.day / STEPS;
        let number = self.days(at) * f64::from(STEPS);
        let mut end = step * (number as u32 + 1);
        // A client takes a part of a second to start.
        if end.saturating_sub(at) < step / 4 {
            end += step;
        }
        let end = end.min(self.length());
        let length = end.checked_sub(at).filter(|length| *length >= step / 4)?;
        let phase = TAU * self.days(at + length / 2);
        let rate = LOW + (HIGH - LOW) * (1.0 - phase.cos()) / 2.0;
        Some(Step {
            length,
            rate: rate as u32,
        })
    }

    /// Returns the time from this one to the next quarter of an hour.
    pub(super) fn until_quarter(&self, at: Duration) -> Duration {
        let quarter = self.day / QUARTERS;
        let quarters = self.days(at) * f64::from(QUARTERS);
        (quarter * (quarters as u32 + 1)).saturating_sub(at)
    }
}

/// Days of a month, and the length of each: the certificates of 10 minutes are those of 30 days.
const FULL: (u32, Duration) = (30, Duration::from_secs(20));
const SHORT: (u32, Duration) = (3, Duration::from_secs(5));
/// Steps of a day.
const STEPS: u32 = 8;
const QUARTERS: u32 = 24 * 4;
const RENEWED_AFTER: f64 = 60.0;
/// Prime that divides no number of hosts of a row.
const STRIDE: usize = 7_919;
/// Connections per second at midnight and at noon.
const LOW: f64 = 50.0;
const HIGH: f64 = 300.0;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn visitors_come_by_day() {
        let plan = Plan::new(100, 2, false);
        let rate = |ms| plan.step(Duration::from_millis(ms)).unwrap().rate;
        // The first step lies between 0:00 and 3:00, the fourth one between 9:00 and 12:00.
        assert_eq!(
            [rate(0), rate(7_500), rate(10_000), rate(17_500)],
            [59, 290, 290, 59]
        );
        assert_eq!(rate(20_000), rate(0));
    }

    #[test]
    fn steps_end_on_time_however_late_they_begin() {
        let plan = Plan::new(100, 2, false);
        let length = |ms| {
            let step = plan.step(Duration::from_millis(ms));
            step.map(|step| step.length.as_millis())
        };
        assert_eq!(length(0), Some(2_500));
        assert_eq!(length(1_500), Some(1_000));
        assert_eq!(length(2_450), Some(2_550));
        assert_eq!(length(599_000), Some(1_000));
        assert_eq!(length(599_500), None);
        assert_eq!(length(650_000), None);
    }

    #[test]
    fn each_first_host_is_renewed_within_60_days() {
        let plan = Plan::new(10_000, 2, false);
        let begin = plan.due(Duration::ZERO);
        let half = plan.due(Duration::from_secs(300));
        let end = plan.due(Duration::from_secs(1_000));
        assert_eq!(
            (begin.hosts, half.hosts, end.hosts),
            (10_000, 15_000, 20_000)
        );
        let written: BTreeSet<usize> = plan.between(begin, end).collect();
        let renewed = written.iter().filter(|number| **number < 10_000);
        assert_eq!(renewed.count(), 5_000);
        assert_eq!(written.len(), 15_000);
        let parts = plan.between(begin, half).chain(plan.between(half, end));
        assert_eq!(parts.collect::<BTreeSet<_>>(), written);
    }
}
