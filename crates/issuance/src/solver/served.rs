//! DNS-01 by a zone that the servers of this catalog answer for: a host's CNAME leads to a
//! name in it, whoever runs the host's DNS, and wherever its addresses lead.
//!
//! The name in the zone has a label of the tenant. A CNAME that is left behind when a
//! domain changes hands gives the next tenant of the name nothing.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE32_NOPAD;
use sekisho_certs::store::{Document, DocumentId, DocumentKind, Precondition, Write};
use sekisho_certs::{HostName, HostPattern, Sealer, Secret, StoreError, Tenant};
use sekisho_dns::Resolver;
use tokio::time::timeout;

use super::dns01::{self, Fault, end_of_cnames};

/// Zone of `[acme.dns."ZONE"] serve`.
#[derive(Clone, Debug)]
pub struct Served {
    /// The zone.
    pub zone: HostName,
    /// Resolver of CNAMEs.
    pub resolver: Resolver,
}

/// Record that the owner of a host sets once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// Name of the record, without its last dot.
    pub name: String,
    /// Where the CNAME leads, without its last dot.
    pub target: String,
}

impl Served {
    /// Returns the identity that labels are made with: that of the catalog in which the zone
    /// was used first. A copy keeps it, since customers have set the labels.
    ///
    /// # Errors
    /// The catalog's failure.
    pub async fn labels(&self, sealer: &Sealer) -> Result<Secret, StoreError> {
        if let Some(first) = sealer.document(&LABELS).await? {
            return Ok(first.bytes);
        }
        let own = Secret::new(sealer.catalog().id().await?.0.to_vec());
        // Another process that was faster has written the same.
        let put = Write::PutDocument(Document::new(LABELS, own.clone()), Precondition::Absent);
        sealer.try_write(vec![put]).await?;
        Ok(own)
    }

    /// Returns the records by which hosts are proved, in their order. Each has the label of the
    /// tenant that the host has now, or of the one beside it if there is no such host.
    ///
    /// # Errors
    /// The catalog's failure.
    pub async fn delegations(
        &self,
        sealer: &Sealer,
        hosts: &[(&HostPattern, &Tenant)],
    ) -> Result<Vec<Delegation>, StoreError> {
        let labels = self.labels(sealer).await?;
        let patterns: Vec<_> = hosts.iter().map(|(host, _)| (*host).clone()).collect();
        let records = sealer.catalog().hosts(&patterns).await?;
        let tenants = records.iter().map(|one| (&one.pattern, &one.tenant));
        let tenants: HashMap<_, _> = tenants.collect();
        let delegation = |(host, tenant): &(&HostPattern, &Tenant)| {
            let tenant = tenants.get(host).unwrap_or(tenant);
            self.delegation(host, tenant, &labels)
        };
        Ok(hosts.iter().map(delegation).collect())
    }

    /// Returns the record by which this tenant's host is proved, by [`Self::labels`].
    #[must_use]
    pub fn delegation(&self, host: &HostPattern, tenant: &Tenant, labels: &Secret) -> Delegation {
        let host = host.wildcard_parent().unwrap_or(host.as_str());
        let (labels, tenant) = (labels.expose(), tenant.as_str().as_bytes());
        let label = [&b"sekisho dcv\0"[..], labels, b"\0", tenant].concat();
        let label = BASE32_NOPAD.encode(digest(&SHA256, &label).as_ref());
        // 80 bits: a tenant can't choose one that another has.
        let label = label[..LABEL].to_ascii_lowercase();
        Delegation {
            name: format!("_acme-challenge.{host}"),
            target: format!("{host}.{label}.{}", self.zone),
        }
    }

    /// Checks that the CNAME is set, and leads to this tenant's name.
    ///
    /// # Errors
    /// [`Fault::Name`] says which record to set; [`Fault::Unreachable`] if no resolver
    /// answers in time.
    pub async fn check(&self, host: &HostPattern, at: &Delegation) -> Result<(), dns01::Error> {
        let end = timeout(DEADLINE, end_of_cnames(&self.resolver, host)).await;
        let late = || Fault::Unreachable(format!("the resolvers: not done within {DEADLINE:?}"));
        let end = end.unwrap_or_else(|_| Err(late()));
        let end = end.map(|end| end.to_ascii().trim_end_matches('.').to_owned());
        let fault = match end {
            Ok(end) if end.eq_ignore_ascii_case(&at.target) => return Ok(()),
            Ok(end) if end.eq_ignore_ascii_case(&at.name) => {
                Fault::Name(format!("{end} leads nowhere; set {at}"))
            }
            Ok(end) => Fault::Name(format!("{} leads to {end}; set {at}", at.name)),
            Err(fault) => fault,
        };
        Err(fault.at(host.as_str()))
    }
}

impl fmt::Display for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CNAME {}", self.name, self.target)
    }
}

const LABELS: DocumentId = DocumentId::known(DocumentKind::new("acme-zone"), "labels");
/// Characters of a tenant's label.
const LABEL: usize = 16;
/// Bound for following CNAMEs: three questions with two of three resolvers dead take 12 s.
const DEADLINE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    fn delegation(host: &str, tenant: &str, catalog: u8) -> Delegation {
        let served = Served {
            zone: HostName::parse("dcv.example.net").unwrap(),
            resolver: Resolver::new(&[]),
        };
        let host = HostPattern::parse(host).unwrap();
        let tenant = Tenant::parse(tenant).unwrap();
        served.delegation(&host, &tenant, &Secret::new(vec![catalog; 16]))
    }

    #[test]
    fn a_wildcard_and_its_parent_have_one_record() {
        let one = delegation("shop.example", "anna", 1);
        assert_eq!(delegation("*.shop.example", "anna", 1), one);
        assert_eq!(one.name, "_acme-challenge.shop.example");
        let label = one.target.strip_prefix("shop.example.").unwrap();
        let label = label.strip_suffix(".dcv.example.net").unwrap();
        assert_eq!(label.len(), LABEL);
        let of_base32 = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        assert!(label.bytes().all(of_base32));
    }

    #[test]
    fn tenants_and_catalogs_have_labels_of_their_own() {
        let one = delegation("shop.example", "anna", 1);
        assert_ne!(delegation("shop.example", "bert", 1), one);
        assert_ne!(delegation("shop.example", "", 1), one);
        assert_ne!(delegation("shop.example", "anna", 2), one);
        // Customers have set it: it never changes.
        assert_eq!(delegation("a.example", "", 0).target, FIXED);
    }

    /// Of SHA-256 over "sekisho dcv", a zero, 16 zeros and a zero.
    const FIXED: &str = "a.example.jrsmdzb32zkehqhz.dcv.example.net";
}
