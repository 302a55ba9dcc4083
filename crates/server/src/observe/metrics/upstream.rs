//! Metrics of upstream servers.

use sekisho_certs::metrics::{Counter, Gauge, InGauge, Registry};

use super::labels::{Resolution, UpstreamResult};

/// Counts of requests to upstream servers, their ejections and name resolutions.
#[derive(Debug, Default)]
pub(crate) struct UpstreamMetrics {
    requests: [Counter; UpstreamResult::ALL.len()],
    resolutions: [Counter; Resolution::ALL.len()],
    pub(crate) retries: Counter,
    pub(crate) ejections: Counter,
    pub(crate) checks_failed: Counter,
    /// Open connections.
    pub(crate) connections: Gauge,
    ejected: Gauge,
}

impl UpstreamMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        let requests = UpstreamResult::metric("outcome", &self.requests);
        let help = "Requests to upstream servers by outcome, retries included";
        registry.register("upstream_requests", help, requests);
        let resolutions = Resolution::metric("outcome", &self.resolutions);
        let help = "Questions for the addresses of upstream servers by outcome";
        registry.register("upstream_resolutions", help, resolutions);
        let help = "Requests that were sent to an upstream server once more";
        registry.register("upstream_retries", help, self.retries.clone());
        let help = "Pauses of upstream servers that failed several times in a row";
        registry.register("upstream_ejections", help, self.ejections.clone());
        let help = "Active checks of upstream servers that failed";
        registry.register("upstream_checks_failed", help, self.checks_failed.clone());
        let help = "Open connections to upstream servers, unused ones included";
        registry.register("upstream_connections", help, self.connections.clone());
        let help = "Upstream servers that failed, and have had no success since";
        registry.register("upstream_servers_ejected", help, self.ejected.clone());
    }

    pub(crate) fn request(&self, result: UpstreamResult) {
        self.requests[result as usize].inc();
    }

    pub(crate) fn resolution(&self, result: Resolution) {
        self.resolutions[result as usize].inc();
    }

    /// Counts an ejected server until it is dropped.
    pub(crate) fn ejected(&self) -> InGauge {
        InGauge::new(&self.ejected)
    }
}
