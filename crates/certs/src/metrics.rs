//! Metrics of every part, in prometheus-client's types.

mod spread;

use std::fmt;
use std::sync::atomic::AtomicU64;

pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::{EncodeGaugeValue, EncodeMetric, MetricEncoder};
pub use prometheus_client::metrics::MetricType;
pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::family::Family;
pub use prometheus_client::metrics::gauge::ConstGauge;
pub use prometheus_client::registry::Registry;

pub use spread::Spread;

/// Counter of what each connection or request does: threads count without waiting for
/// each other. Takes 1 KiB.
pub type BusyCounter = prometheus_client::metrics::counter::Counter<u64, Spread>;

/// A gauge of bytes, entries or another figure that is never negative.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<u64, AtomicU64>;

/// Guard that a gauge counts until it is dropped.
#[derive(Debug)]
pub struct InGauge(Gauge);

impl InGauge {
    /// Counts one more.
    #[must_use]
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counters that differ in the value of one label.
///
/// A `Family` would find each counter by hashing its label below a lock. The
/// handshake path counts with the handle alone.
#[derive(Debug)]
pub struct Counters<const N: usize, C = Counter> {
    /// Name of the label.
    pub label: &'static str,
    /// Value of the label, and its counter.
    pub each: [(&'static str, C); N],
}

impl<const N: usize, C: EncodeMetric> EncodeMetric for Counters<N, C> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (value, counter) in &self.each {
            counter.encode(encoder.encode_family(&[(self.label, *value)])?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }
}

/// Writes a gauge whose value is computed with each scrape.
///
/// # Errors
/// The text takes no more.
pub fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: &impl EncodeGaugeValue,
) -> fmt::Result {
    to.encode_descriptor(name, help, None, MetricType::Gauge)?
        .encode_gauge(value)
}
