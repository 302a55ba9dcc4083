//! Where the record of a challenge goes: the end of a chain of CNAMEs, and its
//! zone.

use hickory_proto::op::ResponseCode;
use hickory_proto::rr::{Name, RData, RecordType};
use sekisho_certs::HostPattern;

use super::error::Fault;
use crate::names::is_public_suffix;
use sekisho_dns::Resolver;

/// Returns the name of the record and of its zone.
pub(super) async fn find(resolver: &Resolver, name: &HostPattern) -> Result<(Name, Name), Fault> {
    let fqdn = end_of_cnames(resolver, name).await?;
    let zone = zone_of(resolver, &fqdn).await?;
    Ok((fqdn, zone))
}

/// Returns the name to which CNAMEs of the challenge's name lead; that name without any.
pub(crate) async fn end_of_cnames(resolver: &Resolver, name: &HostPattern) -> Result<Name, Fault> {
    let host = name.wildcard_parent().unwrap_or(name.as_str());
    end_of_chain(resolver, parse(&format!("{LABEL}.{host}."))?).await
}

/// Parses a name that ends with a dot.
pub(super) fn parse(name: &str) -> Result<Name, Fault> {
    Name::from_ascii(name).map_err(|error| Fault::Name(format!("{name:?}: {error}")))
}

/// Follows CNAMEs one by one: a resolver that serves only its own zones leaves the
/// rest of a chain out.
async fn end_of_chain(resolver: &Resolver, first: Name) -> Result<Name, Fault> {
    let mut name = first.clone();
    for _ in 0..=MAX_CNAMES {
        let answer = resolver.ask(&name, RecordType::CNAME).await?;
        let next = answer.answers.into_iter().find_map(|record| {
            let is_own = record.name == name;
            match record.data {
                RData::CNAME(target) if is_own => Some(target.0.to_lowercase()),
                _ => None,
            }
        });
        match next {
            None => return Ok(name),
            Some(next) if is_plain(&next) => name = next,
            Some(next) => {
                let why = format!("{name} is a CNAME for {next}, {ODD}");
                return Err(Fault::Name(why));
            }
        }
    }
    let why = format!("over {MAX_CNAMES} CNAMEs follow {first}; the last leads to {name}");
    Err(Fault::Name(why))
}

/// Tells whether a name is safe as an argument of programs. The target of a CNAME is
/// the text of whoever runs the host's DNS.
fn is_plain(name: &Name) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let mut labels = name.iter();
    !name.is_root() && labels.all(|label| label.iter().all(is_plain) && !label.starts_with(b"-"))
}

/// Finds the zone of a name: the owner of the SOA record at the name or above.
async fn zone_of(resolver: &Resolver, name: &Name) -> Result<Name, Fault> {
    let mut above = name.clone();
    while !above.is_root() {
        let answer = resolver.ask(&above, RecordType::SOA).await?;
        let records = answer.answers.iter().chain(&answer.authorities);
        let zone = records
            .filter(|record| record.record_type() == RecordType::SOA)
            .map(|record| record.name.to_lowercase())
            .find(|zone| zone.zone_of(name));
        let is_absent = answer.metadata.response_code == ResponseCode::NXDomain;
        match zone {
            // A zone of a registry that does not know the domain.
            Some(zone) if is_absent && is_of_registry(&zone) => break,
            Some(zone) => return Ok(zone),
            None => above = above.base_name(),
        }
    }
    let why = format!("there is no zone for {name}: DNS knows no such domain (NXDOMAIN)");
    Err(Fault::Name(why))
}

fn is_of_registry(zone: &Name) -> bool {
    let text = zone.to_ascii();
    zone.is_root() || is_public_suffix(&text.trim_end_matches('.').to_owned())
}

/// RFC 8555, section 8.4.
const LABEL: &str = "_acme-challenge";
const ODD: &str = "which holds other characters than letters, digits, hyphens and underscores";
/// Resolvers follow about as many.
const MAX_CNAMES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_could_misread_are_refused() {
        for plain in ["_acme-challenge.a.example.", "x-1.example.", "a."] {
            assert!(is_plain(&parse(plain).unwrap()), "{plain}");
        }
        for label in ["-rf", "$(id)", "a b", "a;b", "a.b", "*", "\u{1}"] {
            let name = Name::from_labels([label.as_bytes(), b"example"]).unwrap();
            assert!(!is_plain(&name), "{name}");
        }
        assert!(!is_plain(&Name::root()));
    }

    #[test]
    fn zones_of_registries_are_known() {
        for (zone, expected) in [(".", true), ("com.", true), ("co.uk.", true)] {
            assert_eq!(is_of_registry(&parse(zone).unwrap()), expected, "{zone}");
        }
        for zone in ["example.com.", "github.io.", "internal."] {
            assert!(!is_of_registry(&parse(zone).unwrap()), "{zone}");
        }
    }
}
