//! Gauge of each CA.

use std::fmt;
use std::sync::Arc;

use sekisho_certs::metrics::{Collector, DescriptorEncoder, MetricType};

use super::Authority;

/// Writes which CAs are passed over.
#[derive(Debug)]
pub(super) struct PassedOver(pub(super) Vec<Arc<Authority>>);

impl Collector for PassedOver {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether orders pass the CA over since it failed";
        let kind = MetricType::Gauge;
        let mut gauge = encoder.encode_descriptor("acme_ca_passed_over", help, None, kind)?;
        for one in &self.0 {
            gauge
                .encode_family(&[("ca", one.ca.name())])?
                .encode_gauge(&u64::from(!one.works()))?;
        }
        Ok(())
    }
}
