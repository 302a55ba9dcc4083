//! Filters and pages of lists.

use std::sync::Arc;

use crate::credential::{CredentialId, SealedBytes, StoredCredential};
use crate::host::{HostName, HostPattern};
use crate::record::{HostRecord, Tenant};

/// Hosts that a list shows: those that meet each condition. The default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFilter {
    /// Hosts of this tenant; those of the empty name are the operator's.
    pub tenant: Option<Tenant>,
    /// The host of this name, all below it, and the wildcards of these.
    pub under: Option<HostName>,
    /// Hosts that refer to no credential of any type.
    pub without_certificate: bool,
    /// Hosts that this source brought.
    pub origin: Option<Arc<str>>,
    /// Hosts that are suspended.
    pub suspended: bool,
}

impl HostFilter {
    /// Tells whether this host is shown.
    #[must_use]
    pub fn admits(&self, record: &HostRecord) -> bool {
        let tenant = self.tenant.as_ref();
        let under = self.under.as_ref();
        let source = record.origin.as_ref().map(|origin| &origin.source);
        tenant.is_none_or(|tenant| record.tenant == *tenant)
            && under.is_none_or(|name| name.holds(record.pattern.as_str()))
            && (!self.without_certificate || record.references.is_empty())
            && (self.origin.is_none() || self.origin.as_ref() == source)
            && (!self.suspended || record.suspended.is_some())
    }

    /// Returns the tenant whose index finds the hosts: other conditions may be met by many
    /// more. The operator, whose name is empty, often has nearly all hosts, and comes after
    /// them.
    #[must_use]
    pub fn leading_tenant(&self) -> Option<&Tenant> {
        let has_other = self.under.is_some() || self.suspended || self.without_certificate;
        let leads = |tenant: &&Tenant| !tenant.as_str().is_empty() || !has_other;
        self.tenant.as_ref().filter(leads)
    }

    /// Tells whether hosts are in the order of their [`reversed`] patterns: below a domain,
    /// unless an index of fewer hosts leads.
    #[must_use]
    pub fn is_by_name(&self) -> bool {
        let has_fewer = self.suspended || self.without_certificate;
        self.under.is_some() && !has_fewer && self.leading_tenant().is_none()
    }
}

/// Page of a list of hosts.
#[derive(Clone, Debug, Default)]
pub struct HostPage {
    /// Hosts that the filter admits: fewer than the limit, or none, though more may follow.
    pub hosts: Vec<HostRecord>,
    /// Pattern after which the next page begins; none at the end of the list.
    pub next: Option<HostPattern>,
}

impl HostPage {
    /// Makes the page of what a catalog has read in order, at most `limit` records.
    #[must_use]
    pub fn of(mut read: Vec<HostRecord>, filter: &HostFilter, limit: usize) -> Self {
        let last = read.last().filter(|_| read.len() >= limit);
        let next = last.map(|last| last.pattern.clone());
        read.retain(|record| filter.admits(record));
        Self { hosts: read, next }
    }
}

/// Credentials that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialFilter {
    /// All, by their ids.
    All,
    /// Credentials whose validity ends within this time, by their end and id.
    Ends {
        /// First second, since the Unix epoch.
        from: i64,
        /// Second after the last.
        until: i64,
    },
    /// Credentials that this source brought, by their ids.
    Origin(Arc<str>),
}

impl CredentialFilter {
    /// Tells whether this credential is shown.
    #[must_use]
    pub fn admits<K>(&self, credential: &StoredCredential<K>) -> bool {
        match self {
            Self::All => true,
            Self::Ends { from, until } => (*from..*until).contains(&credential.not_after),
            Self::Origin(source) => {
                let origin = credential.origin.as_ref();
                origin.is_some_and(|origin| origin.source == *source)
            }
        }
    }

    /// Returns the place of a credential in this list.
    #[must_use]
    pub fn place<K>(&self, credential: &StoredCredential<K>) -> (i64, CredentialId) {
        let first = match self {
            Self::Ends { .. } => credential.not_after,
            Self::All | Self::Origin(_) => 0,
        };
        (first, credential.id)
    }
}

/// Page of a list of credentials.
#[derive(Clone, Debug, Default)]
pub struct CredentialPage {
    /// Credentials that the filter admits: fewer than the limit, or none, though more may
    /// follow.
    pub credentials: Vec<StoredCredential<SealedBytes>>,
    /// Place after which the next page begins; none at the end of the list.
    pub next: Option<(i64, CredentialId)>,
}

impl CredentialPage {
    /// Makes the page of what a catalog has read in order, at most `limit` credentials.
    #[must_use]
    pub fn of(
        mut read: Vec<StoredCredential<SealedBytes>>,
        filter: &CredentialFilter,
        limit: usize,
    ) -> Self {
        let last = read.last().filter(|_| read.len() >= limit);
        let next = last.map(|last| filter.place(last));
        read.retain(|credential| filter.admits(credential));
        Self {
            credentials: read,
            next,
        }
    }
}

/// Returns a pattern with its labels backwards and a dot after each, by which the names
/// below a domain stand together: `example.shop.` of `shop.example`, and `example.shop.*.`
/// of its wildcard.
#[must_use]
pub fn reversed(pattern: &HostPattern) -> String {
    let mut text = String::with_capacity(pattern.as_str().len() + 1);
    for label in pattern.as_str().rsplit('.') {
        text.push_str(label);
        text.push('.');
    }
    text
}

/// Returns the texts between which the names of a domain are among the [`reversed`] ones:
/// '~' comes after all that a name may have, and '/' is the byte after '.'.
#[must_use]
pub fn names_below(name: &HostName) -> (String, String) {
    let mut first = reversed(&name.into());
    first.pop();
    (format!("{first}-~"), first + "/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;
    use crate::record::Site;

    fn record(pattern: &str) -> HostRecord {
        HostRecord::new(HostPattern::parse(pattern).unwrap())
    }

    #[test]
    fn an_index_of_fewer_hosts_leads_before_that_of_names() {
        let filter = HostFilter {
            under: Some(HostName::parse("b.example").unwrap()),
            tenant: Some(Tenant::default()),
            origin: Some("/srv".into()),
            ..HostFilter::default()
        };
        assert!(filter.is_by_name());
        let of_customer = HostFilter {
            tenant: Some(Tenant::parse("anna").unwrap()),
            ..filter.clone()
        };
        let suspended = HostFilter {
            suspended: true,
            ..filter.clone()
        };
        let without_certificate = HostFilter {
            without_certificate: true,
            ..filter
        };
        let all = HostFilter::default();
        for other in [of_customer, suspended, without_certificate, all] {
            assert!(!other.is_by_name(), "{other:?}");
        }
    }

    #[test]
    fn a_host_meets_each_condition() {
        let mut host = record("*.b.example");
        host.tenant = Tenant::parse("anna").unwrap();
        host.origin = Some(Origin::new("/srv"));
        host.suspended = Some(Site {
            format: 1,
            json: "{}".into(),
        });
        let filter = HostFilter {
            tenant: Some(host.tenant.clone()),
            under: Some(HostName::parse("b.example").unwrap()),
            without_certificate: true,
            origin: Some("/srv".into()),
            suspended: true,
        };
        assert!(filter.admits(&host));
        let spoil: [fn(&mut HostRecord); 5] = [
            |host| host.tenant = Tenant::default(),
            |host| host.pattern = HostPattern::parse("*.ab.example").unwrap(),
            |host| {
                let id = CredentialId::from_u64(1);
                host.references.set(crate::KeyType::Rsa, Some(id));
            },
            |host| host.origin = Some(Origin::new("/other")),
            |host| host.suspended = None,
        ];
        for spoil in spoil {
            let mut host = host.clone();
            spoil(&mut host);
            assert!(!filter.admits(&host), "{host:?}");
            assert!(HostFilter::default().admits(&host));
        }
    }

    #[test]
    fn a_full_page_has_a_next_one() {
        let filter = HostFilter {
            suspended: true,
            ..HostFilter::default()
        };
        let read = || ["a.example", "b.example"].map(record).to_vec();
        for (limit, next) in [(2, Some("b.example")), (3, None)] {
            let page = HostPage::of(read(), &filter, limit);
            assert!(page.hosts.is_empty());
            assert_eq!(page.next.as_ref().map(HostPattern::as_str), next);
        }
        assert!(HostPage::of(Vec::new(), &filter, 0).next.is_none());
    }

    #[test]
    fn names_below_a_domain_stand_together() {
        let domain = HostName::parse("shop.example").unwrap();
        let (before, end) = names_below(&domain);
        assert_eq!((&*before, &*end), ("example.shop-~", "example.shop/"));
        for (pattern, is_below) in [
            ("shop.example", true),
            ("*.shop.example", true),
            ("a-b.shop.example", true),
            ("*.a_b.shop.example", true),
            ("xshop.example", false),
            ("shop-x.example", false),
            ("shop0.example", false),
            ("example", false),
            ("shop.example.net", false),
        ] {
            let pattern = HostPattern::parse(pattern).unwrap();
            let text = reversed(&pattern);
            let stands = before < text && text < end;
            assert_eq!(stands, is_below, "{text}");
            assert_eq!(domain.holds(pattern.as_str()), is_below, "{pattern}");
        }
    }
}
