//! Ways to prove control of a name to a CA (RFC 8555, section 8).

pub mod dns01;
mod served;

use sekisho_certs::{HostName, HostPattern};

use crate::acme::ChallengeType;
use crate::setting_error::SettingError;
use dns01::{Dns01, Waiting, Waits};
pub use served::{Delegation, Served};
use tokio::sync::watch;

/// Zone with the way to write its records, `[acme.dns."ZONE"]`.
#[derive(Clone, Debug)]
pub struct DnsZone {
    /// The zone: it and all names below it are meant.
    pub zone: HostName,
    /// Way to write records.
    pub solver: dns01::Settings,
}

/// Challenges in the order in which they are tried, and the zones of DNS-01.
#[derive(Debug)]
pub struct Solvers {
    order: Vec<ChallengeType>,
    /// The longest first.
    zones: Vec<(HostName, Dns01)>,
    /// Zone of this catalog's servers, for names that no other zone holds.
    served: Option<Served>,
    waits: Waits,
}

impl Solvers {
    /// Writes and asks nothing.
    #[must_use]
    pub fn new(order: Vec<ChallengeType>, zones: Vec<DnsZone>, served: Option<Served>) -> Self {
        let waits = Waits::default();
        let dns = |one: DnsZone| (one.zone, Dns01::new(one.solver, waits.clone()));
        let mut zones: Vec<_> = zones.into_iter().map(dns).collect();
        zones.sort_by_key(|(zone, _)| std::cmp::Reverse(zone.as_str().len()));
        Self {
            served: served.filter(|_| order.contains(&ChallengeType::Dns01)),
            order,
            zones,
            waits,
        }
    }

    /// Returns the challenges that can prove all of these names, the first to be tried
    /// first: `wish`, a challenge's name, before the configured order. The served zone is
    /// of use where nothing else is, or by a wish: a host without the CNAME would cost one
    /// more failed order each time.
    ///
    /// # Errors
    /// Says what to configure if there is none.
    pub fn of(
        &self,
        names: &[HostPattern],
        wish: Option<&str>,
    ) -> Result<Vec<ChallengeType>, String> {
        let proves = |kind: &ChallengeType| names.iter().all(|name| self.proves(*kind, name));
        let mut kinds: Vec<_> = self.order.iter().copied().filter(proves).collect();
        let dns = ChallengeType::Dns01;
        let is_left = kinds.is_empty() || wish == Some(dns.as_str()) && !kinds.contains(&dns);
        if is_left && names.iter().all(|name| self.holds(name)) {
            kinds.push(dns);
        }
        // A stable sort: the others keep their order.
        kinds.sort_by_key(|kind| Some(kind.as_str()) != wish);
        if !kinds.is_empty() {
            return Ok(kinds);
        }
        let has_wildcard = names.iter().any(|name| name.wildcard_parent().is_some());
        let without_zone = names.iter().find(|name| self.dns(name).is_none());
        Err(match without_zone {
            Some(name) if has_wildcard => format!(
                "one challenge must prove all names, and a wildcard needs dns-01: add \
                 [acme.dns.\"{}\"] for {name}",
                name.wildcard_parent().unwrap_or(name.as_str())
            ),
            _ => "[acme] solvers has none that can prove these names".to_owned(),
        })
    }

    /// Follows the waits for records of DNS-01 that take long.
    pub(crate) fn waits(&self) -> watch::Receiver<Option<Waiting>> {
        self.waits.subscribe()
    }

    /// Returns the zones whose records can be written; none if DNS-01 is not tried.
    pub(crate) fn zones(&self) -> Vec<HostName> {
        let is_tried = self.order.contains(&ChallengeType::Dns01);
        let zones = self.zones.iter().filter(|_| is_tried);
        zones.map(|(zone, _)| zone.clone()).collect()
    }

    /// Returns the zone that servers of this catalog answer for, if DNS-01 is tried.
    #[must_use]
    pub fn served(&self) -> Option<&Served> {
        self.served.as_ref()
    }

    /// Tells whether there is a served zone, and one of the zones proves this name. The served
    /// zone's own names have no CNAMEs.
    fn holds(&self, name: &HostPattern) -> bool {
        let bare = name.wildcard_parent().unwrap_or(name.as_str());
        let served = self.served.as_ref();
        served.is_some_and(|served| !served.zone.holds(bare) || self.dns(name).is_some())
    }

    /// Tells whether there is a challenge that needs no zone.
    pub(crate) fn without_dns(&self) -> bool {
        let is_other = |kind: &ChallengeType| *kind != ChallengeType::Dns01;
        self.order.iter().any(is_other)
    }

    /// Returns the zone's way to write records for this name.
    #[must_use]
    pub fn dns(&self, name: &HostPattern) -> Option<&Dns01> {
        self.zone(name).map(|(_, dns)| dns)
    }

    fn zone(&self, name: &HostPattern) -> Option<&(HostName, Dns01)> {
        let name = name.wildcard_parent().unwrap_or(name.as_str());
        self.zones.iter().find(|(zone, _)| zone.holds(name))
    }

    /// Returns the setting by which this name's records could not be written.
    pub(crate) fn setting(&self, name: &HostPattern, error: &dns01::Error) -> Option<SettingError> {
        let dns01::Fault::Refused(why) = &error.fault else {
            return None;
        };
        let (zone, dns) = self.zone(name)?;
        Some(SettingError {
            key: format!("dns.\"{zone}\".{}", dns.key()),
            why: why.clone(),
        })
    }

    fn proves(&self, kind: ChallengeType, name: &HostPattern) -> bool {
        match kind {
            ChallengeType::Dns01 => self.dns(name).is_some(),
            ChallengeType::Http01 | ChallengeType::TlsAlpn01 => name.wildcard_parent().is_none(),
        }
    }
}

impl SettingError {
    /// Makes the error of a writer that could not be made for this zone.
    #[must_use]
    pub fn of_zone(zone: &HostName, fault: dns01::Fault) -> Self {
        let table = format!("dns.\"{zone}\"");
        match fault {
            dns01::Fault::Setting { key, why } => Self::new(&format!("{table}.{key}"), why),
            fault => Self::new(&table, fault.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::dns01::{Exec, Settings, Writer};
    use super::*;

    fn solvers(zones: &[&str]) -> Solvers {
        let zone = |zone: &&str| DnsZone {
            zone: HostName::parse(zone).unwrap(),
            solver: Settings::new(Writer::Exec(Exec::new("/bin/true".into(), Vec::new()))),
        };
        let order = [
            ChallengeType::TlsAlpn01,
            ChallengeType::Http01,
            ChallengeType::Dns01,
        ];
        Solvers::new(order.to_vec(), zones.iter().map(zone).collect(), None)
    }

    fn of(zones: &[&str], names: &[&str], wish: Option<&str>) -> Result<String, String> {
        let names: Vec<_> = names
            .iter()
            .map(|name| HostPattern::parse(name).unwrap())
            .collect();
        let kinds = solvers(zones).of(&names, wish)?;
        let kinds: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
        Ok(kinds.join(" "))
    }

    #[test]
    fn challenges_follow_names_zones_and_wish() {
        let all = "tls-alpn-01 http-01 dns-01";
        let usual = "tls-alpn-01 http-01";
        for (zones, names, wish, expected) in [
            (&[][..], &["a.example"][..], None, usual),
            (&["example"], &["a.example"], None, all),
            (&["a.example"], &["ba.example"], None, usual),
            (
                &["a.example"],
                &["a.example", "*.a.example"],
                None,
                "dns-01",
            ),
            (&[], &["a.example"], Some("http-01"), "http-01 tls-alpn-01"),
            (&[], &["a.example"], Some("dns-01"), usual),
        ] {
            assert_eq!(of(zones, names, wish).unwrap(), expected, "{names:?}");
        }
    }

    #[test]
    fn a_served_zone_proves_what_nothing_else_does() {
        let served = Served {
            zone: HostName::parse("dcv.example.net").unwrap(),
            resolver: sekisho_dns::Resolver::new(&[]),
        };
        let solvers = Solvers {
            served: Some(served),
            ..solvers(&["a.example"])
        };
        let usual = "tls-alpn-01 http-01";
        for (names, wish, expected) in [
            (&["b.example"][..], None, Some(usual)),
            (
                &["b.example"],
                Some("dns-01"),
                Some("dns-01 tls-alpn-01 http-01"),
            ),
            (&["*.b.example", "a.example"], None, Some("dns-01")),
            (&["*.dcv.example.net"], None, None),
            (&["dcv.example.net"], Some("dns-01"), Some(usual)),
        ] {
            let names: Vec<_> = names
                .iter()
                .map(|name| HostPattern::parse(name).unwrap())
                .collect();
            let joined = |kinds: Vec<ChallengeType>| {
                let kinds: Vec<_> = kinds.iter().map(|kind| kind.as_str()).collect();
                kinds.join(" ")
            };
            let kinds = solvers.of(&names, wish).ok().map(joined);
            assert_eq!(kinds.as_deref(), expected, "{names:?}");
        }
    }

    #[test]
    fn a_wildcard_without_a_zone_says_what_to_configure() {
        let error = of(&["other.example"], &["a.example", "*.b.example"], None).unwrap_err();
        assert!(
            error.contains("[acme.dns.\"a.example\"] for a.example"),
            "{error}"
        );
        let error = of(&["a.example"], &["a.example", "*.b.example"], None).unwrap_err();
        assert!(
            error.contains("[acme.dns.\"b.example\"] for *.b.example"),
            "{error}"
        );
    }
}
