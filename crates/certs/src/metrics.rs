//! Metrics of every part, in prometheus-client's types.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

pub use prometheus_client::collector::Collector;
pub use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::{
    EncodeCounterValue, EncodeGaugeValue, EncodeMetric, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::gauge::ConstGauge;
pub use prometheus_client::registry::Registry;

/// A gauge of bytes, entries or another figure that is never negative.
pub type Gauge = prometheus_client::metrics::gauge::Gauge<u64, AtomicU64>;

/// Counters that differ in the value of one label.
///
/// A `Family` would find each counter by hashing its label below a lock. The
/// handshake path counts with the handle alone.
#[derive(Debug)]
pub struct Counters<const N: usize> {
    /// Name of the label.
    pub label: &'static str,
    /// Value of the label, and its counter.
    pub each: [(&'static str, Counter); N],
}

impl<const N: usize> EncodeMetric for Counters<N> {
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

/// Registers what `write` writes when somebody asks.
pub fn register(
    registry: &mut Registry,
    write: impl Fn(&mut Writer<'_>) -> fmt::Result + Send + Sync + 'static,
) {
    registry.register_collector(Box::new(Written(write)));
}

struct Written<F>(F);

impl<F> fmt::Debug for Written<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Written")
    }
}

impl<F> Collector for Written<F>
where
    F: Fn(&mut Writer<'_>) -> fmt::Result + Send + Sync + 'static,
{
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        (self.0)(&mut Writer(encoder))
    }
}

/// Writes metrics as OpenMetrics text. A name is given without its prefix, and
/// that of a counter without `_total`.
pub struct Writer<'a>(DescriptorEncoder<'a>);

#[expect(missing_docs, reason = "each writes one metric of its type")]
#[expect(clippy::missing_errors_doc, reason = "the text takes no more")]
impl Writer<'_> {
    pub fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: &impl EncodeCounterValue,
    ) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(value, None)
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: &impl EncodeGaugeValue) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, None, MetricType::Gauge)?
            .encode_gauge(value)
    }

    pub fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        words: [&str; N],
        values: &[AtomicU64; N],
    ) -> fmt::Result {
        let values: Vec<_> = words.into_iter().zip(values.iter().map(read)).collect();
        self.family(name, help, label, &values)
    }

    pub fn family(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: &[(&str, u64)],
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (word, value) in values {
            family
                .encode_family(&[(label, *word)])?
                .encode_counter::<NoLabelSet, _, f64>(value, None)?;
        }
        Ok(())
    }

    pub fn one_of(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: &[(&str, u64)],
    ) -> fmt::Result {
        let mut family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (word, value) in values {
            family
                .encode_family(&[(label, *word)])?
                .encode_gauge(value)?;
        }
        Ok(())
    }
}

/// Reads a counter. Relaxed: figures need no order among each other.
#[must_use]
pub fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
