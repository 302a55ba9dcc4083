//! Counts of a run, and which of them are violations.

use std::time::Duration;

use hdrhistogram::Histogram;
use sekisho_bench::table::Figures;

#[derive(Clone, Debug)]
pub(crate) struct Counts {
    pub(crate) handshakes: u64,
    /// Visits of hosts that the server had cached.
    pub(crate) cached: u64,
    /// Failed visits of cached hosts.
    pub(crate) cached_failures: u64,
    /// Failed visits of hosts that were possibly not cached: the cost of an
    /// outage.
    pub(crate) uncached_failures: u64,
    /// Certificates of another host, or never written for this one.
    pub(crate) wrong_certificates: u64,
    /// Certificates that were replaced or removed longer ago than a change may
    /// take.
    pub(crate) stale: u64,
    /// Existing hosts that were answered with `unrecognized_name`.
    pub(crate) false_absences: u64,
    /// Unanswered requests on connections of cached hosts, or in flight at a
    /// restart.
    pub(crate) unanswered: u64,
    pub(crate) lost_writes: u64,
    pub(crate) acknowledged: u64,
    pub(crate) refused: u64,
    propagation: Histogram<u64>,
    /// Times of connections to cached hosts, from their start to the answer's
    /// end.
    pub(crate) latency: Histogram<u64>,
}

impl Default for Counts {
    fn default() -> Self {
        // 1 µs to 1 minute, with three digits.
        let empty = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds make sense");
        Self {
            handshakes: 0,
            cached: 0,
            cached_failures: 0,
            uncached_failures: 0,
            wrong_certificates: 0,
            stale: 0,
            false_absences: 0,
            unanswered: 0,
            lost_writes: 0,
            acknowledged: 0,
            refused: 0,
            propagation: empty.clone(),
            latency: empty,
        }
    }
}

impl Counts {
    /// Records the time from a write's acknowledgement until one server served
    /// it.
    pub(crate) fn propagated(&mut self, took: Duration) {
        self.propagation.saturating_record(micros(took));
    }

    /// Records a connection of a cached host.
    pub(crate) fn of_a_cached_host(&mut self, took: Duration) {
        self.cached += 1;
        self.latency.saturating_record(micros(took));
    }

    pub(crate) fn violations(&self) -> u64 {
        self.cached_failures
            + self.wrong_certificates
            + self.stale
            + self.false_absences
            + self.unanswered
            + self.lost_writes
    }

    /// Formats all counts as one line, for people and for grep.
    pub(crate) fn line(&self) -> String {
        format!(
            "handshakes={} of_cached_hosts={} failures_of_cached_hosts={} wrong_certificates={} \
             stale_certificates={} false_absences={} unanswered_requests={} lost_writes={} \
             writes_acknowledged={} writes_refused={} failures_of_uncached_hosts={} \
             propagations={} propagation_p50_ms={:.1} propagation_p99_ms={:.1}",
            self.handshakes,
            self.cached,
            self.cached_failures,
            self.wrong_certificates,
            self.stale,
            self.false_absences,
            self.unanswered,
            self.lost_writes,
            self.acknowledged,
            self.refused,
            self.uncached_failures,
            self.propagation.len(),
            millis(&self.propagation, 0.5),
            millis(&self.propagation, 0.99),
        )
    }

    /// Returns what the evaluation shows, the most important first.
    pub(crate) fn figures(&self) -> Figures {
        vec![
            ("violations", self.violations() as f64),
            ("handshakes", self.handshakes as f64),
            ("of cached hosts", self.cached as f64),
            ("failed, of hosts not cached", self.uncached_failures as f64),
            ("writes acknowledged", self.acknowledged as f64),
            ("writes refused", self.refused as f64),
            ("propagation p50 ms", millis(&self.propagation, 0.5)),
            ("propagation p99 ms", millis(&self.propagation, 0.99)),
        ]
    }

    /// Formats what a phase added to `before`. The latencies begin with the
    /// phase.
    pub(crate) fn since(&self, before: &Self) -> String {
        format!(
            "{} handshakes, {} of cached hosts (p99 {:.1} ms); {} of uncached hosts failed; writes: {} \
             acknowledged, {} refused; violations: {}",
            self.handshakes - before.handshakes,
            self.cached - before.cached,
            millis(&self.latency, 0.99),
            self.uncached_failures - before.uncached_failures,
            self.acknowledged - before.acknowledged,
            self.refused - before.refused,
            self.violations() - before.violations(),
        )
    }
}

fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

fn millis(of: &Histogram<u64>, quantile: f64) -> f64 {
    of.value_at_quantile(quantile) as f64 / 1000.0
}
