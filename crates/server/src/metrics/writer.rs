//! Single figures as OpenMetrics text.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet,
};
use prometheus_client::metrics::MetricType;

/// Writes single figures.
pub(super) struct Writer<'a>(pub(super) DescriptorEncoder<'a>);

impl Writer<'_> {
    pub(super) fn counter(
        &mut self,
        name: &str,
        help: &str,
        value: &impl EncodeCounterValue,
    ) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, None, MetricType::Counter)?
            .encode_counter::<NoLabelSet, _, f64>(value, None)
    }

    pub(super) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        value: &impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.0
            .encode_descriptor(name, help, None, MetricType::Gauge)?
            .encode_gauge(value)
    }

    pub(super) fn counters<const N: usize>(
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

    pub(super) fn family(
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

    pub(super) fn one_of(
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

    pub(super) fn histogram(
        &mut self,
        name: &str,
        help: &str,
        sum_micros: u64,
        buckets: &[(f64, u64)],
    ) -> fmt::Result {
        #[expect(clippy::cast_precision_loss, reason = "52 bits hold 140 years")]
        let sum = sum_micros as f64 / 1e6;
        let count = buckets.iter().map(|(_, count)| count).sum();
        self.0
            .encode_descriptor(name, help, None, MetricType::Histogram)?
            .encode_histogram::<NoLabelSet>(sum, count, buckets, None)
    }
}

/// What a counter stands at. Relaxed: figures need no order among each other.
pub(super) fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
