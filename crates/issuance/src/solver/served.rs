//! DNS-01 by a zone that the servers of this catalog answer for: a host's CNAME leads to a
//! name in it, whoever runs the host's DNS, and wherever its addresses lead.
//!
//! The name in the zone has a label of the tenant. A CNAME that is left behind when a
//! domain changes hands gives the next tenant of the name nothing.

use std::fmt;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE32_NOPAD;
use sekisho_certs::store::{
    CatalogId, Document, DocumentId, DocumentKind, Precondition, Write,
};
use sekisho_certs::{HostName, HostPattern, Sealer, Secret, StoreError, Tenant, Txt};
use sekisho_dns::Resolver;
use tokio::time::timeout;

use super::dns01::{self, Fault, Presented, end_of_cnames};

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
    /// Returns the catalog that labels are made for: the one in which the zone was used first.
    /// A copy keeps them, since customers have set them.
    ///
    /// # Errors
    /// The catalog's failure.
    pub async fn labels(&self, sealer: &Sealer) -> Result<CatalogId, StoreError> {
        let stored = sealer.document(&LABELS).await?;
        let first = stored.and_then(|stored| stored.bytes.expose().try_into().ok());
        if let Some(first) = first {
            return Ok(CatalogId(first));
        }
        let catalog = sealer.catalog().id().await?;
        let document = Document::new(LABELS, Secret::new(catalog.0.to_vec()));
        // Another process that was faster has written the same.
        let put = Write::PutDocument(document, Precondition::Absent);
        sealer.try_write(vec![put]).await?;
        Ok(catalog)
    }

    /// Returns the record by which this tenant's host is proved, by [`Self::labels`].
    #[must_use]
    pub fn delegation(
        &self,
        host: &HostPattern,
        tenant: &Tenant,
        labels: CatalogId,
    ) -> Delegation {
        let host = bare(host);
        let parts = [&b"sekisho dcv\0"[..], &labels.0, b"\0", tenant.as_str().as_bytes()];
        // 80 bits: a tenant can't choose one that another has.
        let label = &base32(&parts.concat())[..LABEL];
        let zone = &self.zone;
        let mut target = format!("{host}.{label}.{zone}");
        if target.len() > MAX_NAME {
            target = format!("{}.{label}.{zone}", base32(host.as_bytes()));
        }
        Delegation {
            name: format!("_acme-challenge.{host}"),
            target,
        }
    }

    /// Finds out whether the CNAME is set, and leads to this tenant's name.
    ///
    /// # Errors
    /// [`Fault::Name`] says which record to set; [`Fault::Unreachable`] if no resolver
    /// answers in time.
    pub async fn locate(
        &self,
        host: &HostPattern,
        delegation: &Delegation,
        value: &str,
    ) -> Result<Presented, dns01::Error> {
        let found = self.checked(host, delegation).await;
        found.map_err(|fault| dns01::Error {
            name: host.as_str().into(),
            fault,
        })?;
        Ok(Presented {
            fqdn: format!("{}.", delegation.target),
            zone: format!("{}.", self.zone),
            value: value.to_owned(),
        })
    }

    async fn checked(&self, host: &HostPattern, delegation: &Delegation) -> Result<(), Fault> {
        let end = timeout(DEADLINE, end_of_cnames(&self.resolver, host)).await;
        let end = end.unwrap_or_else(|_| {
            let why = format!("the resolvers: not done within {DEADLINE:?}");
            Err(Fault::Unreachable(why))
        })?;
        let end = end.to_ascii();
        let end = end.trim_end_matches('.');
        if end.eq_ignore_ascii_case(&delegation.target) {
            return Ok(());
        }
        let name = &delegation.name;
        let leads = match end.eq_ignore_ascii_case(name) {
            true => "nowhere".to_owned(),
            false => format!("to {end}"),
        };
        Err(Fault::Name(format!("{name} leads {leads}; set {delegation}")))
    }

    /// Returns the text of a record, if it is in this zone.
    pub(crate) fn text(&self, record: &Presented) -> Option<Txt> {
        let is_own = record.zone.trim_end_matches('.') == self.zone.as_str();
        is_own.then(|| Txt {
            name: record.fqdn.clone(),
            value: record.value.clone(),
        })
    }
}

impl fmt::Display for Delegation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CNAME {}", self.name, self.target)
    }
}

/// Returns the name that a challenge for a host is about.
fn bare(host: &HostPattern) -> &str {
    host.wildcard_parent().unwrap_or(host.as_str())
}

/// Returns 52 characters that a label of a name can hold.
fn base32(bytes: &[u8]) -> String {
    BASE32_NOPAD.encode(digest(&SHA256, bytes).as_ref()).to_ascii_lowercase()
}

const LABELS: DocumentId = DocumentId::known(DocumentKind::new("acme-zone"), "labels");
/// Characters of a tenant's label.
const LABEL: usize = 16;
/// Characters of a name, without its last dot.
const MAX_NAME: usize = 253;
/// Bound for following CNAMEs.
const DEADLINE: Duration = Duration::from_secs(60);

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
        served.delegation(&host, &tenant, CatalogId([catalog; 16]))
    }

    #[test]
    fn a_wildcard_and_its_parent_have_one_record() {
        let one = delegation("shop.example", "anna", 1);
        assert_eq!(delegation("*.shop.example", "anna", 1), one);
        assert_eq!(one.name, "_acme-challenge.shop.example");
        let label = one.target.strip_prefix("shop.example.").unwrap();
        let label = label.strip_suffix(".dcv.example.net").unwrap();
        assert_eq!(label.len(), LABEL);
        assert!(label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit()));
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

    #[test]
    fn long_names_are_shortened() {
        let host = format!("{}example", "a23456789.".repeat(23));
        let one = delegation(&host, "", 1);
        assert!(one.target.len() <= MAX_NAME, "{one}");
        assert_eq!(one.name, format!("_acme-challenge.{host}"));
        let other = delegation(&host.replace('a', "b"), "", 1);
        assert_ne!(one.target, other.target);
    }

    /// Of SHA-256 over "sekisho dcv", a zero, 16 zeros and a zero.
    const FIXED: &str = "a.example.jrsmdzb32zkehqhz.dcv.example.net";
}
