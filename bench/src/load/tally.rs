//! Tally of a run: latencies, and failures by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;
use hdrhistogram::iterators::IterationValue;
use serde::{Deserialize, Serialize};

use super::failure::Failure;

#[derive(Clone, Debug)]
pub struct Tally {
    handshakes: Histogram<u64>,
    operations: Histogram<u64>,
    lags: Histogram<u64>,
    resumed: u64,
    errors: BTreeMap<String, u64>,
}

impl Tally {
    pub fn new() -> Result<Self> {
        // 1 µs to 10 minutes, with three digits: about 160 KB, which do not
        // grow.
        let empty = Histogram::new_with_bounds(1, 600_000_000, 3)?;
        Ok(Self {
            handshakes: empty.clone(),
            operations: empty.clone(),
            lags: empty,
            resumed: 0,
            errors: BTreeMap::new(),
        })
    }

    pub fn handshake(&mut self, took: Duration, resumed: bool) {
        self.handshakes.saturating_record(micros(took));
        self.resumed += u64::from(resumed);
    }

    /// Records a connection with its request; with `--keepalive`, one request.
    pub fn operation(&mut self, took: Duration) {
        self.operations.saturating_record(micros(took));
    }

    /// Records how late a connection of a schedule began.
    pub fn lag(&mut self, late: Duration) {
        self.lags.saturating_record(micros(late));
    }

    /// Adds the counts of another tally.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.handshakes.add(&other.handshakes)?;
        self.operations.add(&other.operations)?;
        self.lags.add(&other.lags)?;
        self.resumed += other.resumed;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }

    /// Counts a failure by its kind. Without its host name, a message is the
    /// same kind for all hosts. The name may be empty, if the message has none.
    pub fn failure(&mut self, failure: &Failure, host: &str) {
        let mut kind = failure.kind();
        if !host.is_empty() {
            kind = kind.replace(host, "HOST");
        }
        if self.errors.len() >= MAX_KINDS && !self.errors.contains_key(&kind) {
            "others".clone_into(&mut kind);
        }
        *self.errors.entry(kind).or_default() += 1;
    }

    /// Returns the number of operations in each bucket of their times, with its largest time
    /// in microseconds.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let buckets = self.operations.iter_recorded();
        let count =
            |bucket: IterationValue<u64>| (bucket.value_iterated_to(), bucket.count_at_value());
        buckets.map(count).collect()
    }

    pub fn outcome(self, elapsed: Duration) -> Outcome {
        let seconds = elapsed.as_secs_f64();
        Outcome {
            operations: self.operations.len(),
            handshakes: self.handshakes.len(),
            resumed: self.resumed,
            seconds,
            per_second: self.operations.len() as f64 / seconds.max(1e-9),
            operation_us: Latency::of(&self.operations),
            handshake_us: Latency::of(&self.handshakes),
            lag_us: (!self.lags.is_empty()).then(|| Latency::of(&self.lags)),
            counts: Vec::new(),
            core_percent: 0.0,
            failed: self.errors.values().sum(),
            errors: self.errors,
        }
    }
}

/// Result of a run, as printed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Outcome {
    pub operations: u64,
    pub handshakes: u64,
    pub resumed: u64,
    pub seconds: f64,
    pub per_second: f64,
    /// Time from the connection's start to its response's last byte. With
    /// `--keepalive`, it begins with the request, and with `--first-byte` it ends there.
    pub operation_us: Latency,
    /// Time from the connection's start to the handshake's end.
    pub handshake_us: Latency,
    /// Time from when a connection was due to its start; only with `--rate`.
    pub lag_us: Option<Latency>,
    /// Buckets of the operations' times, each with its largest time in microseconds and its
    /// number of operations; only with `--counts`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counts: Vec<(u64, u64)>,
    /// Percentage of its core that the generator used. The comparison reads it from outside.
    #[serde(skip)]
    pub core_percent: f64,
    pub failed: u64,
    pub errors: BTreeMap<String, u64>,
}

impl Outcome {
    pub fn describe(&self) -> String {
        let mut text = format!(
            "{} operations in {:.2} s, {:.0} per second\n\
             {} handshakes, {} of them resumed\n",
            self.operations, self.seconds, self.per_second, self.handshakes, self.resumed
        );
        text += &format!("operation  {}\n", self.operation_us.describe());
        text += &format!("handshake  {}\n", self.handshake_us.describe());
        if let Some(lag) = &self.lag_us {
            text += &format!("own lag    {}\n", lag.describe());
        }
        if self.failed == 0 {
            text += "no errors\n";
        }
        for (kind, count) in &self.errors {
            text += &format!("{count} failed: {kind}\n");
        }
        text
    }
}

/// Percentiles in microseconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Latency {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            p50: histogram.value_at_quantile(0.5),
            p90: histogram.value_at_quantile(0.9),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
        }
    }

    fn describe(&self) -> String {
        format!(
            "p50 {} µs  p90 {}  p99 {}  p99.9 {}  max {}",
            self.p50, self.p90, self.p99, self.p999, self.max
        )
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

/// Kinds of failures that are counted separately.
const MAX_KINDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut tally = Tally::new().unwrap();
        for value in 1..=1_000 {
            tally.operation(Duration::from_micros(value));
        }
        let outcome = tally.outcome(Duration::from_secs(2));
        assert_eq!((outcome.operations, outcome.per_second), (1_000, 500.0));
        let latency = outcome.operation_us;
        assert_eq!((latency.p50, latency.p90, latency.p99), (500, 900, 990));
        assert_eq!((latency.p999, latency.max), (999, 1_000));
    }

    #[test]
    fn failures_are_counted_by_kind() {
        let mut tally = Tally::new().unwrap();
        for status in [404, 404, 502] {
            tally.failure(&Failure::Status(status), "h0.example.test");
        }
        tally.failure(&Failure::Deadline, "");
        let outcome = tally.outcome(Duration::from_secs(1));
        assert_eq!((outcome.failed, outcome.errors["deadline"]), (4, 1));
        assert_eq!(outcome.errors["status 404"], 2);
        assert!(outcome.describe().contains("1 failed: status 502"));
    }
}
