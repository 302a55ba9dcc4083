//! Readings of a server over a month, and their sums.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::Sample;
use crate::compare::rows::figure;
use sekisho_bench::load::Outcome;

/// Readings in the order of time.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Series {
    pub(crate) points: Vec<Point>,
    /// Where and why the server ended before the month did.
    pub(crate) ended: Option<String>,
}

impl Series {
    pub(crate) fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ended.is_none()
    }
}

/// Readings of one step. Those of the client and of the CPU are for the step alone.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Point {
    /// Days from the beginning to the end of the step.
    pub(crate) day: f64,
    /// Hosts that the server serves.
    pub(crate) certificates: usize,
    /// Hosts that there are. Some may wait for a reload.
    pub(crate) due: usize,
    /// Answered requests per second.
    pub(crate) per_second: f64,
    pub(crate) failed: u64,
    /// Requests that took over 100 ms from when they were due.
    pub(crate) slow: u64,
    pub(crate) p99_us: u64,
    /// Percentage of a core.
    pub(crate) cpu: f64,
    /// Part of it that reads configurations and certificates again: that of nginx's master.
    pub(crate) reload_cpu: f64,
    /// PSS of all processes at the end of the step, and the largest of some readings within it.
    pub(crate) pss_mib: f64,
    pub(crate) peak_pss_mib: f64,
    /// Reloads since the beginning.
    pub(crate) reloads: u64,
}

/// CPU time since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    pub(super) all: Duration,
    pub(super) reloads: Duration,
}

impl Cpu {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            reloads: self.reloads.saturating_sub(before.reloads),
        }
    }
}

/// Sums of all steps.
pub(super) struct Sums {
    /// CPU time of the reloads that have ended; the last one may be under way.
    pub(super) ended_reloads: Duration,
    times: Histogram<u64>,
    failed: u64,
    /// Failures by their kinds.
    errors: BTreeMap<String, u64>,
    lag_p99: u64,
    /// Largest percentage of its core that a client used.
    core_percent: f64,
}

impl Sums {
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            ended_reloads: Duration::ZERO,
            times: Histogram::new_with_bounds(1, 600_000_000, 3)?,
            failed: 0,
            errors: BTreeMap::new(),
            lag_p99: 0,
            core_percent: 0.0,
        })
    }

    /// Adds a step; returns how many of its requests were slow.
    pub(super) fn add(&mut self, outcome: &Outcome) -> u64 {
        let mut slow = 0;
        for (micros, count) in &outcome.counts {
            self.times.saturating_record_n(*micros, *count);
            if *micros > SLOW {
                slow += count;
            }
        }
        self.failed += outcome.failed;
        for (kind, count) in &outcome.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        let lag = outcome.lag_us.as_ref().map_or(0, |lag| lag.p99);
        self.lag_p99 = self.lag_p99.max(lag);
        self.core_percent = self.core_percent.max(outcome.core_percent);
        slow
    }

    /// Returns what failed, for the list of commands.
    pub(super) fn failures(&self) -> impl Iterator<Item = String> {
        let errors = self.errors.iter();
        errors.map(|(kind, count)| format!("# {count} failed: {kind}"))
    }

    pub(super) fn figures(&self, series: &Series, cpu: Cpu) -> Sample {
        let points = &series.points;
        let last = |of: fn(&Point) -> f64| points.last().map_or(0.0, of);
        let peak = points.iter().map(|point| point.peak_pss_mib);
        let reloads = last(|point| point.reloads as f64);
        let each = match reloads {
            0.0 => 0.0,
            reloads => self.ended_reloads.as_secs_f64() / reloads,
        };
        let slow: u64 = points.iter().map(|point| point.slow).sum();
        vec![
            (PEAK, peak.fold(0.0, f64::max)),
            (figure::PSS, last(|point| point.pss_mib)),
            (SECONDS, cpu.all.as_secs_f64()),
            (REQUESTS, self.times.len() as f64),
            (FAILED, self.failed as f64),
            (SLOW_ONES, slow as f64),
            (figure::P99, self.times.value_at_quantile(0.99) as f64),
            (LAG, self.lag_p99 as f64),
            (figure::CLIENT_BUSY, self.core_percent),
            (CERTIFICATES, last(|point| point.certificates as f64)),
            (HOSTS, last(|point| point.due as f64)),
            (RELOADS, reloads),
            (RELOAD_SECONDS, each),
        ]
    }
}

/// Longest time of a request that is not slow, in microseconds.
const SLOW: u64 = 100_000;

const PEAK: &str = "peak PSS MiB";
const SECONDS: &str = "server CPU s";
const REQUESTS: &str = "requests";
pub(crate) const FAILED: &str = "failed";
const SLOW_ONES: &str = "over 100 ms";
const LAG: &str = "client's own lag p99 µs, worst step";
const CERTIFICATES: &str = "certificates served at the end";
const HOSTS: &str = "hosts at the end";
const RELOADS: &str = "reloads";
const RELOAD_SECONDS: &str = "CPU s of each reload";

#[cfg(test)]
mod tests {
    use super::*;
    use sekisho_bench::load::Tally;

    fn outcome(counts: &[(u64, u64)], failed: u64) -> Outcome {
        Outcome {
            counts: counts.to_vec(),
            failed,
            errors: [("deadline".to_owned(), failed)].into(),
            ..Tally::new().unwrap().outcome(Duration::from_secs(1))
        }
    }

    #[test]
    fn a_month_is_the_sum_of_its_steps() {
        let mut sums = Sums::new().unwrap();
        assert_eq!(sums.add(&outcome(&[(900, 980), (100_000, 10)], 1)), 0);
        assert_eq!(sums.add(&outcome(&[(900, 1_000), (101_000, 10)], 2)), 10);
        let point = |pss_mib, peak_pss_mib, slow| Point {
            day: 0.0,
            certificates: 7,
            due: 8,
            per_second: 0.0,
            failed: 0,
            slow,
            p99_us: 0,
            cpu: 0.0,
            reload_cpu: 0.0,
            pss_mib,
            peak_pss_mib,
            reloads: 3,
        };
        let series = Series {
            points: vec![point(5.0, 9.0, 0), point(6.0, 6.5, 10)],
            ended: None,
        };
        let cpu = Cpu {
            all: Duration::from_secs(20),
            reloads: Duration::from_secs(8),
        };
        sums.ended_reloads = Duration::from_secs(6);
        let figures = sums.figures(&series, cpu);
        let figure = |name: &str| figures.iter().find(|(other, _)| *other == name).unwrap().1;
        assert_eq!([figure(PEAK), figure(figure::PSS)], [9.0, 6.0]);
        assert_eq!([figure(REQUESTS), figure(FAILED)], [2_000.0, 3.0]);
        assert_eq!([figure(SLOW_ONES), figure(RELOADS)], [10.0, 3.0]);
        assert_eq!([figure(SECONDS), figure(RELOAD_SECONDS)], [20.0, 2.0]);
        assert!((900.0..=901.0).contains(&figure(figure::P99)));
        let failures: Vec<String> = sums.failures().collect();
        assert_eq!(failures, ["# 3 failed: deadline"]);
    }

    #[test]
    fn a_server_that_never_served_has_figures() {
        let figures = Sums::new()
            .unwrap()
            .figures(&Series::default(), Cpu::default());
        // A figure that is no number can't be read again from JSON.
        assert!(figures.iter().all(|(_, value)| *value == 0.0));
    }
}
