//! The condition CAA (RFC 8659): which CAs the domain allows.

use std::sync::Arc;

use hickory_proto::rr::rdata::CAA;
use hickory_proto::rr::{RData, RecordType};
use sekisho_certs::HostPattern;

use super::decision::No;
use sekisho_dns::Resolver;

/// CAs that the CAA records of a name allow, by their issuer domain names.
///
/// Parameters of a property, such as `accounturi` and `validationmethods` (RFC
/// 8657), are left to the CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Issuers {
    /// No record restricts issuance.
    Any,
    /// Only these CAs, in lower case; none if the list is empty.
    Only(Arc<[Box<str>]>),
}

impl Issuers {
    /// Tells whether a CA with these `caaIdentities` may issue. A CA that names none
    /// does not say that it heeds CAA, and is not checked.
    #[must_use]
    pub fn permits(&self, identities: &[String]) -> bool {
        match self {
            Self::Any => true,
            Self::Only(allowed) => {
                let is_allowed = |id: &String| allowed.iter().any(|it| it.eq_ignore_ascii_case(id));
                identities.is_empty() || identities.iter().any(is_allowed)
            }
        }
    }

    /// Reads the relevant record set (RFC 8659, sections 4.2 and 4.3).
    fn of(records: &[&CAA], is_wildcard: bool) -> Result<Self, String> {
        let tagged = |tag: &'static str| {
            let has_tag = move |caa: &&&CAA| caa.tag.eq_ignore_ascii_case(tag);
            records.iter().filter(has_tag)
        };
        let is_unknown = |caa: &&&CAA| {
            let is_known = |tag: &str| caa.tag.eq_ignore_ascii_case(tag);
            caa.issuer_critical && !KNOWN.iter().any(|tag| is_known(tag))
        };
        if let Some(caa) = records.iter().find(is_unknown) {
            let tag = caa.tag.escape_debug();
            return Err(format!("a critical CAA property is unknown: {tag}"));
        }
        let tag = match is_wildcard && tagged("issuewild").next().is_some() {
            true => "issuewild",
            false => "issue",
        };
        if tagged(tag).next().is_none() {
            return Ok(Self::Any);
        }
        Ok(Self::Only(
            tagged(tag).filter_map(|it| issuer(it)).collect(),
        ))
    }
}

/// Returns the CAs that the closest name at or above the pattern with CAA records
/// allows (RFC 8659, section 3).
pub(super) async fn issuers(resolver: &Resolver, pattern: &HostPattern) -> Result<Issuers, No> {
    let parent = pattern.wildcard_parent();
    let mut next = Some(parent.unwrap_or(pattern.as_str()));
    while let Some(name) = next {
        let records = resolver.records(name, RecordType::CAA).await?;
        let records: Vec<_> = records.iter().filter_map(caa).collect();
        if !records.is_empty() {
            let issuers = Issuers::of(&records, parent.is_some());
            return issuers.map_err(|why| No::Refused(format!("{name}: {why}").into()));
        }
        next = name.split_once('.').map(|(_, parent)| parent);
    }
    Ok(Issuers::Any)
}

fn caa(data: &RData) -> Option<&CAA> {
    match data {
        RData::CAA(caa) => Some(caa),
        _ => None,
    }
}

/// Returns the issuer domain name of a property; none if it is empty or malformed,
/// which allows no CA.
fn issuer(caa: &CAA) -> Option<Box<str>> {
    let value = str::from_utf8(&caa.value).ok()?;
    let name = value.split(';').next()?.trim_matches([' ', '\t']);
    (!name.is_empty()).then(|| name.to_ascii_lowercase().into())
}

/// Property tags that are understood; `issuemail` (RFC 9495) is not about hosts.
/// RFC 8659, section 4.1: others forbid issuance if they are critical.
const KNOWN: [&str; 4] = ["issue", "issuewild", "issuemail", "iodef"];

#[cfg(test)]
mod tests {
    use super::*;

    fn record((flags, tag, value): (u8, &str, &str)) -> CAA {
        let mut record = CAA::new_issue(flags == 128, None, Vec::new());
        record.tag = tag.into();
        record.value = value.into();
        record
    }

    fn permit(records: &[(u8, &str, &str)], is_wildcard: bool, identity: &str) -> bool {
        let records: Vec<_> = records.iter().copied().map(record).collect();
        let records: Vec<_> = records.iter().collect();
        let issuers = Issuers::of(&records, is_wildcard);
        issuers.is_ok_and(|issuers| issuers.permits(&[identity.to_owned()]))
    }

    #[test]
    fn properties_are_read_as_the_rfc_says() {
        const WILD: bool = true;
        const EXACT: bool = false;
        for (records, kind, expected) in [
            (&[(0, "issue", "ca.example")][..], EXACT, true),
            (&[(0, "issue", "other.example")], EXACT, false),
            (
                &[(0, "issue", "other.example"), (0, "issue", "ca.example")],
                EXACT,
                true,
            ),
            (&[(0, "ISSUE", " CA.Example ; accounturi=x")], EXACT, true),
            (&[(0, "issue", ";")], EXACT, false),
            (&[(0, "issue", "")], EXACT, false),
            (&[(0, "issue", "%%%%%")], EXACT, false),
            (&[(0, "iodef", "mailto:a@example.com")], EXACT, true),
            (&[(0, "issue", "ca.example")], WILD, true),
            (
                &[(0, "issue", "ca.example"), (0, "issuewild", ";")],
                WILD,
                false,
            ),
            (
                &[(0, "issue", "ca.example"), (0, "issuewild", ";")],
                EXACT,
                true,
            ),
            (
                &[(0, "issue", ";"), (0, "issuewild", "ca.example")],
                WILD,
                true,
            ),
            (
                &[(0, "issue", ";"), (0, "issuewild", "ca.example")],
                EXACT,
                false,
            ),
            (&[(0, "issuewild", ";")], EXACT, true),
            (&[(128, "issue", "ca.example")], EXACT, true),
            (&[(0, "issue", "ca.example"), (0, "tbs", "x")], EXACT, true),
            (
                &[(0, "issue", "ca.example"), (128, "tbs", "x")],
                EXACT,
                false,
            ),
            (&[(128, "tbs", "x")], WILD, false),
            (&[(128, "issuemail", ";")], EXACT, true),
        ] {
            assert_eq!(
                permit(records, kind, "ca.example"),
                expected,
                "{records:?} {kind}"
            );
        }
    }

    #[test]
    fn a_ca_without_identities_is_not_checked() {
        assert!(Issuers::Only(Arc::new([])).permits(&[]));
        assert!(Issuers::Any.permits(&["ca.example".to_owned()]));
    }
}
