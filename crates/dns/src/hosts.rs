//! Names that this machine knows without asking: hosts(5), and `localhost`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Names of `/etc/hosts`.
#[derive(Debug, Default)]
pub struct Hosts(HashMap<Box<str>, Vec<IpAddr>>);

impl Hosts {
    /// Parses the text of hosts(5). Lines that are none, and addresses with a
    /// zone, are passed over.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut hosts: HashMap<_, Vec<_>> = HashMap::new();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else {
                continue;
            };
            for name in words {
                let addresses = hosts.entry(key(name)).or_default();
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        for addresses in hosts.values_mut() {
            addresses.sort_by_key(IpAddr::is_ipv6);
        }
        Self(hosts)
    }

    /// Returns the addresses of a name, those of IPv4 first. None if the name
    /// stands in no line, and is neither `localhost` nor below it (RFC 6761,
    /// section 6.3).
    #[must_use]
    pub fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        let name = key(name);
        if let Some(addresses) = self.0.get(&name) {
            return Some(addresses.clone());
        }
        let is_local = &*name == LOCALHOST || name.ends_with(".localhost");
        is_local.then(|| vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])
    }
}

fn key(name: &str) -> Box<str> {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.to_ascii_lowercase().into()
}

const LOCALHOST: &str = "localhost";

#[cfg(test)]
mod tests {
    use super::*;

    fn ips(texts: &[&str]) -> Option<Vec<IpAddr>> {
        Some(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn names_of_the_file_are_found() {
        let hosts = Hosts::parse(
            "# 192.0.2.9 commented\n2001:db8::1 App.Internal app # first\n\
             192.0.2.1\tapp.internal\nfe80::1%eth0 zone\n192.0.2.1 app.internal\nno address\n",
        );
        let both = ips(&["192.0.2.1", "2001:db8::1"]);
        assert_eq!(hosts.addresses("app.internal"), both);
        assert_eq!(hosts.addresses("APP.internal."), both);
        assert_eq!(hosts.addresses("app"), ips(&["2001:db8::1"]));
        for absent in ["commented", "zone", "address", "first", "internal"] {
            assert_eq!(hosts.addresses(absent), None, "{absent}");
        }
    }

    #[test]
    fn localhost_is_this_machine_unless_the_file_says_otherwise() {
        let local = ips(&["127.0.0.1", "::1"]);
        assert_eq!(Hosts::default().addresses("localhost"), local);
        assert_eq!(Hosts::default().addresses("a.localhost"), local);
        assert_eq!(Hosts::default().addresses("alocalhost"), None);
        let hosts = Hosts::parse("127.0.0.2 localhost");
        assert_eq!(hosts.addresses("localhost"), ips(&["127.0.0.2"]));
    }
}
