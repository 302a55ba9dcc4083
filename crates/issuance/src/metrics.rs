//! Counters of issuance.

use sekisho_certs::metrics::{Counter, Counters, Gauge, InGauge, Registry};

use crate::acme::Blame;

/// Counters that only grow, and orders in flight. Clones share them. No label grows
/// with names or tenants.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    issued: Counter,
    renewed: Counter,
    refused_by_ca: Counter,
    refused_by_host: Counter,
    refused_by_operator: Counter,
    no_quota: Counter,
    store_failed: Counter,
    allowed: Counter,
    refused: Counter,
    undecided: Counter,
    asked: Counter,
    not_answered: Counter,
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
            ("failed_ca", self.refused_by_ca.clone()),
            ("failed_host", self.refused_by_host.clone()),
            ("failed_operator", self.refused_by_operator.clone()),
            ("failed_quota", self.no_quota.clone()),
            ("failed_store", self.store_failed.clone()),
        ];
        let label = "outcome";
        let help =
            "Attempts to get a certificate, by outcome; failures by who must change something";
        registry.register("acme_attempts", help, Counters { label, each });
        let each = [
            ("allowed", self.allowed.clone()),
            ("refused", self.refused.clone()),
            ("failed", self.undecided.clone()),
        ];
        let label = "decision";
        let help = "Decisions whether a name may have a certificate on first access";
        registry.register("acme_first_access", help, Counters { label, each });
        let each = [
            ("answered", self.asked.clone()),
            ("failed", self.not_answered.clone()),
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
            Reason::Blame(Blame::Ca) => self.refused_by_ca.inc(),
            Reason::Blame(Blame::Host) => self.refused_by_host.inc(),
            Reason::Blame(Blame::Operator) => self.refused_by_operator.inc(),
            Reason::Quota => self.no_quota.inc(),
            Reason::Store => self.store_failed.inc(),
        };
    }

    pub(crate) fn decided(&self, decided: Decided) {
        match decided {
            Decided::Allowed => self.allowed.inc(),
            Decided::Refused => self.refused.inc(),
            Decided::Failed => self.undecided.inc(),
        };
    }

    pub(crate) fn renewal_information(&self, is_answered: bool) {
        match is_answered {
            true => self.asked.inc(),
            false => self.not_answered.inc(),
        };
    }
}
