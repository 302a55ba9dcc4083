//! Counters of issuance.

use sekisho_certs::metrics::{Counter, Counters, Gauge, InGauge, Registry};

use crate::acme::Blame;

/// Counters that only grow, and orders in flight. Clones share them. No label grows
/// with names or tenants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    issued: Counter,
    renewed: Counter,
    failed_ca: Counter,
    failed_host: Counter,
    failed_operator: Counter,
    failed_quota: Counter,
    failed_store: Counter,
    access_allowed: Counter,
    access_refused: Counter,
    access_failed: Counter,
    information_answered: Counter,
    information_failed: Counter,
    late: Counter,
    panics: Counter,
    in_flight: Gauge,
}

/// Reason of an attempt without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Somebody must change something, or the CA failed.
    Blame(Blame),
    /// Limits or pauses allow nothing yet.
    Quota,
    /// The catalog failed.
    Store,
}

/// Decision about the certificate of a first visitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    Allowed,
    Refused,
    Failed,
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

    /// Counts an attempt past the deadline of a certificate.
    pub(crate) fn late(&self) {
        self.late.inc();
    }

    pub(crate) fn renewal_panicked(&self) {
        self.panics.inc();
    }

    pub(crate) fn in_flight(&self) -> InGauge {
        InGauge::new(&self.in_flight)
    }

    pub(crate) fn issued(&self, is_renewal: bool) {
        match is_renewal {
            true => self.renewed.inc(),
            false => self.issued.inc(),
        };
    }

    pub(crate) fn failed(&self, reason: Reason) {
        match reason {
            Reason::Blame(Blame::Ca) => self.failed_ca.inc(),
            Reason::Blame(Blame::Host) => self.failed_host.inc(),
            Reason::Blame(Blame::Operator) => self.failed_operator.inc(),
            Reason::Quota => self.failed_quota.inc(),
            Reason::Store => self.failed_store.inc(),
        };
    }

    pub(crate) fn decided(&self, decided: Decided) {
        match decided {
            Decided::Allowed => self.access_allowed.inc(),
            Decided::Refused => self.access_refused.inc(),
            Decided::Failed => self.access_failed.inc(),
        };
    }

    pub(crate) fn renewal_information(&self, is_answered: bool) {
        match is_answered {
            true => self.information_answered.inc(),
            false => self.information_failed.inc(),
        };
    }
}
