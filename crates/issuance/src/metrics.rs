//! Counters of issuance.

use sekisho_certs::metrics::{Counter, Counters, Gauge, Registry};

/// Counters that only grow, and orders in flight. Clones share them. No label grows
/// with names or tenants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) issued: Counter,
    pub(crate) renewed: Counter,
    pub(crate) failed_ca: Counter,
    pub(crate) failed_host: Counter,
    pub(crate) failed_operator: Counter,
    /// Attempts for which limits or pauses allow nothing yet.
    pub(crate) failed_quota: Counter,
    pub(crate) failed_store: Counter,
    pub(crate) access_allowed: Counter,
    pub(crate) access_refused: Counter,
    pub(crate) access_failed: Counter,
    pub(crate) information_answered: Counter,
    pub(crate) information_failed: Counter,
    /// Attempts past the deadline of a certificate.
    pub(crate) late: Counter,
    pub(crate) panics: Counter,
    pub(crate) in_flight: Gauge,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let each = [
            ("issued", self.issued.clone()),
            ("renewed", self.renewed.clone()),
            ("failed_ca", self.failed_ca.clone()),
            ("failed_host", self.failed_host.clone()),
            ("failed_operator", self.failed_operator.clone()),
            ("failed_quota", self.failed_quota.clone()),
            ("failed_store", self.failed_store.clone()),
        ];
        let label = "outcome";
        let help =
            "Attempts to get a certificate, by outcome; failures by who must change something";
        registry.register("acme_attempts", help, Counters { label, each });
        let each = [
            ("allowed", self.access_allowed.clone()),
            ("refused", self.access_refused.clone()),
            ("failed", self.access_failed.clone()),
        ];
        let label = "decision";
        let help = "Decisions whether a name may have a certificate on first access";
        registry.register("acme_first_access", help, Counters { label, each });
        let each = [
            ("answered", self.information_answered.clone()),
            ("failed", self.information_failed.clone()),
        ];
        let label = "outcome";
        let help = "Questions for renewal information (ARI), by outcome";
        registry.register("acme_renewal_information", help, Counters { label, each });
        let help = "Attempts to renew a certificate in the last sixth of its validity, or after it";
        registry.register("acme_late_renewals", help, self.late.clone());
        let help = "Panics of the renewal, each a bug; it was started again";
        registry.register("acme_renewal_panics", help, self.panics.clone());
        let help = "Orders that this server works on";
        registry.register("acme_orders_in_flight", help, self.in_flight.clone());
    }
}
