//! Places at which the lists of both databases begin, and values that they compare.

use crate::catalog_row::{list_start, signed};
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::store::{CredentialFilter, Leading, reversed, reversed_below};

/// Returns the text at which a list of hosts begins, and what its leading condition compares
/// with.
pub(crate) fn range(leading: Leading<'_>, after: Option<&HostPattern>) -> (String, Option<String>) {
    let value = match leading {
        Leading::Under(name) => {
            let (first, end) = reversed_below(name);
            // A name has no '!', which comes before all that it may have.
            let behind = after.map(|after| reversed(after) + "!");
            return (
                behind.map_or(first.clone(), |one| one.max(first)),
                Some(end),
            );
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
}
