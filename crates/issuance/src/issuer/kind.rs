//! Kind of an order for the CA's limits, and what it takes of them.

use std::collections::BTreeSet;

use rustls_pki_types::CertificateDer;
use sekisho_certs::HostPattern;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

use super::Issuer;
use super::attempt::Attempt;
use super::failure::Failure;
use super::under_way::Saved;
use crate::acme::Fault;
use crate::authorities::Authority;
use crate::quota::{Charge, Kind, Share};
use crate::schedule::Validity;

/// Kind of an order, with the certificate that it replaces.
pub(super) struct OrderKind {
    pub(super) kind: Kind,
    pub(super) replaces: Option<CertificateDer<'static>>,
}

impl Attempt<'_> {
    /// Returns what an order at this CA would be: a renewal only of a certificate that
    /// this CA issued, for exactly these names.
    pub(super) fn order_kind(&self, authority: &Authority) -> OrderKind {
        let directory = authority.ca.directory();
        let issued_by = self.lineage.issued_by.as_deref();
        let leaf = self.current.as_ref().and_then(|one| one.chain.first());
        let leaf = leaf.filter(|leaf| issued_by == Some(directory) && is_for(leaf, &self.names));
        let Some(leaf) = leaf else {
            return OrderKind {
                kind: Kind::First,
                replaces: None,
            };
        };
        let now = self.now();
        let suggested = self.suggested.as_ref();
        let suggested = suggested.filter(|one| one.directory == directory);
        let kind = match suggested {
            _ if self.state.counted_first.as_deref() == Some(directory) => Kind::First,
            Some(suggested) if suggested.window.contains(now) => Kind::Replaces,
            _ => Kind::Renewal,
        };
        let replaces = suggested.map(|_| leaf.clone());
        OrderKind { kind, replaces }
    }

    /// Takes from the CA's limits what an order costs, all of it or nothing.
    pub(super) async fn take_quota(
        &self,
        authority: &Authority,
        kind: Kind,
    ) -> Result<Vec<Charge>, Failure> {
        let (ledger, ca) = (&self.issuer.ledger, authority.ca.name());
        if kind != Kind::Replaces {
            let names = self.names.iter();
            let failures: Vec<_> = names
                .filter_map(|name| authority.options.quotas.failure(name))
                .collect();
            let room = ledger
                .has_room(ca, &failures, self.failures_share())
                .await?;
            room.map_err(|retry| Failure::closed(ca, retry))?;
        }
        let charges = authority.options.quotas.charges(kind, &self.names);
        let taken = ledger.take(ca, &charges, self.share()).await?;
        taken.map_err(|retry| Failure::closed(ca, retry))?;
        Ok(charges)
    }

    /// Drops the order that is saved: no certificate comes of it, as far as this process
    /// knows. One whose key the CA may have got may have one, and keeps what it took.
    pub(super) async fn abandon_order(&mut self) {
        if let Some(saved) = self.state.order.take()
            && saved.key.is_none()
        {
            self.issuer.give_back(&saved).await;
        }
    }

    /// Counts the names whose validation has failed.
    pub(super) async fn count_failure(&self, authority: &Authority, failure: &Failure) {
        let Failure::Acme(error) = failure else {
            return;
        };
        let Fault::Invalid(problem) = &error.fault else {
            return;
        };
        let ca = authority.ca.name();
        let is_about = |name: &&HostPattern| problem.is_bare() || problem.names(name.as_str());
        for name in self.names.iter().filter(is_about) {
            let Some(charge) = authority.options.quotas.failure(name) else {
                continue;
            };
            if let Err(error) = self.issuer.ledger.charge(ca, &charge).await {
                tracing::debug!(ca, %error, "a failed validation was not counted");
            }
        }
    }

    /// First certificates, and those that expire soon, may take the reserve.
    fn share(&self) -> Share {
        let now = self.now();
        match self.validity() {
            Some(validity) if now < validity.deadline() => Share::Unreserved,
            _ => Share::Whole,
        }
    }

    /// Attempts of the schedule leave the last failed validations of a name without a
    /// certificate to its operator, who orders by hand after the cause is mended.
    fn failures_share(&self) -> Share {
        match self.state.refusals {
            0 => Share::Whole,
            _ => Share::Unreserved,
        }
    }

    /// Returns the validity of the certificate in use.
    pub(super) fn validity(&self) -> Option<Validity> {
        self.current.as_ref().map(|current| Validity {
            not_before: current.not_before,
            not_after: current.not_after,
        })
    }
}

impl Issuer {
    /// Gives back what an order took for its certificate. If this process ends before the
    /// lineage is written, another one does so again: the CA has the last word.
    pub(super) async fn give_back(&self, saved: &Saved) {
        let authority = self.authorities.by_directory(&saved.directory);
        let (Some(authority), Some(kind)) = (authority, saved.kind()) else {
            return;
        };
        let charges = authority
            .options
            .quotas
            .certificate_charges(kind, &saved.names());
        self.give_back_charges(authority, &charges).await;
    }

    pub(super) async fn give_back_charges(&self, authority: &Authority, charges: &[Charge]) {
        let ca = authority.ca.name();
        if let Err(error) = self.ledger.give_back(ca, charges).await {
            tracing::debug!(ca, %error, "an unused part of the limits was not given back");
        }
    }
}

/// Tells whether a certificate is for exactly these names.
fn is_for(leaf: &CertificateDer<'_>, names: &[HostPattern]) -> bool {
    let Ok((_, leaf)) = X509Certificate::from_der(leaf) else {
        return false;
    };
    let Ok(Some(alternatives)) = leaf.subject_alternative_name() else {
        return false;
    };
    let of_leaf = alternatives.value.general_names.iter();
    let of_leaf: BTreeSet<_> = of_leaf
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
            _ => None,
        })
        .collect();
    let wanted: BTreeSet<_> = names.iter().map(|name| name.as_str().to_owned()).collect();
    of_leaf == wanted
}
