//! Indexes that the lists of both databases read, the places where they begin, and the values
//! that they compare.

use crate::catalog_row::{list_start, signed};
use crate::indexes::Index;
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{CredentialFilter, Leading, reversed, reversed_below};

/// Returns the indexes that a list of hosts needs.
pub(crate) fn indexes(leading: Leading<'_>) -> &'static [Index] {
    match leading {
        Leading::Suspended => &[Index::HostsSuspended],
        Leading::WithoutCertificate => &[Index::HostsWithoutCertificate],
        Leading::Under(_) => &[Index::HostsUnnamed, Index::HostsByName],
        Leading::Tenant(_) => &[Index::HostsByTenant],
        Leading::Origin(_) => &[Index::HostsByOrigin],
        Leading::All => &[],
    }
}

/// Returns the text at which a list of hosts begins, and what its leading condition compares
/// with.
pub(crate) fn range(leading: Leading<'_>, after: Option<&HostPattern>) -> (String, Option<String>) {
    let value = match leading {
        Leading::Under(name) => {
            let (first, end) = reversed_below(name);
            // A name has no '!', which comes before all that it may have.
            let behind = after.map(|after| reversed(after) + "!");
            return (behind.map_or(first.clone(), |one| one.max(first)), Some(end));
        }
        Leading::Tenant(tenant) => Some(tenant.as_str().to_owned()),
        Leading::Origin(source) => Some(source.to_owned()),
        Leading::Suspended | Leading::WithoutCertificate | Leading::All => None,
    };
    (list_start(after), value)
}

/// Returns the place after which a list of credentials begins: an end of validity and an
/// id, of which none is below 0.
pub(crate) fn credential_start(
    filter: &CredentialFilter,
    after: Option<(i64, CredentialId)>,
) -> (i64, i64) {
    let after = after.map(|(end, id)| (end, signed(id.as_u64())));
    let first = match filter {
        CredentialFilter::Ends { from, .. } => (*from, -1),
        CredentialFilter::All | CredentialFilter::Origin(_) => (0, -1),
    };
    after.map_or(first, |after| after.max(first))
}

/// Owners of hosts in a page of names. Other programs may have written names that are none.
pub(crate) enum Owners {
    Page(Vec<Tenant>),
    /// None of the names is a tenant's; the list goes on behind this one.
    After(String),
}

impl Owners {
    pub(crate) fn of(mut names: Vec<String>) -> Self {
        let read = names.iter().filter_map(|name| Tenant::parse(name).ok());
        let read: Vec<_> = read.collect();
        match names.pop() {
            Some(last) if read.is_empty() => Self::After(last),
            _ => Self::Page(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sekisho_certs::host::HostName;

    #[test]
    fn a_list_below_a_domain_begins_within_it() {
        let name = HostName::parse("b.example").unwrap();
        let begins = |after: Option<&str>| {
            let after = after.map(|text| HostPattern::parse(text).unwrap());
            range(Leading::Under(&name), after.as_ref())
        };
        let end = Some(String::from("example.b/"));
        assert_eq!(begins(None), ("example.b.".into(), end.clone()));
        let behind = begins(Some("*.b.example"));
        assert_eq!(behind, ("example.b.*.!".into(), end.clone()));
        assert!(behind.0.as_str() < "example.b.*.a.");
        assert_eq!(begins(Some("a.example")), ("example.b.".into(), end));
    }

    #[test]
    fn names_that_are_no_tenants_end_no_list() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let mixed = Owners::of(names(&["\u{7}", "anna"]));
        assert!(matches!(mixed, Owners::Page(page) if page[0].as_str() == "anna"));
        let none = Owners::of(names(&["\u{7}", "\u{8}"]));
        assert!(matches!(none, Owners::After(last) if last == "\u{8}"));
        assert!(matches!(Owners::of(Vec::new()), Owners::Page(page) if page.is_empty()));
    }
}
