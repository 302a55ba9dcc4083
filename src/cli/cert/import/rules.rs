//! Rules of an import: which certificates replace others, and what becomes of hosts.

use sekisho_certs::{HostPattern, HostRecord, Secret, Site, StoredCredential, Tenant};

use super::plan::KnownCert;
use super::renew::Renewal;

/// What an import does to hosts. By default it replaces each certificate, and makes hosts of
/// nobody without a site.
#[derive(Default)]
pub(crate) struct Rules {
    /// Time at which a stored certificate must be valid to stay in the place of one that was issued
    /// before it, in seconds since the Unix epoch; none if it never stays.
    pub(super) keep_newer: Option<i64>,
    /// Renewal of what is imported; none without one.
    pub(super) renewal: Option<Renewal>,
    /// Owner of the hosts that are made. Hosts of others are then left alone.
    pub(super) tenant: Option<Tenant>,
    /// Site of the hosts that are made.
    pub(super) site: Option<Site>,
    /// True if no host is made.
    pub(super) only_existing: bool,
}

impl Rules {
    /// Makes the record of a host.
    pub(super) fn make(&self, pattern: &HostPattern) -> HostRecord {
        HostRecord {
            tenant: self.tenant.clone().unwrap_or_default(),
            site: self.site.clone(),
            ..HostRecord::new(pattern.clone())
        }
    }

    /// Says why a host that is there must not be touched; none if it may.
    pub(super) fn refuses(&self, record: &HostRecord) -> Option<String> {
        let (tenant, host) = (self.tenant.as_ref()?.as_str(), &record.pattern);
        (record.tenant.as_str() != tenant).then(|| match record.tenant.as_str() {
            "" => format!(
                "{host} has no tenant; 'sekisho host set {host} --tenant {tenant}' gives it one"
            ),
            owner => format!("{host} belongs to tenant {owner}"),
        })
    }

    /// Tells whether a certificate is skipped in favour of the stored one.
    pub(super) fn skips(&self, credential: &StoredCredential<Secret>, stored: &KnownCert) -> bool {
        let is_older = credential.not_before < stored.not_before;
        is_older && self.keep_newer.is_some_and(|now| stored.not_after >= now)
    }
}
