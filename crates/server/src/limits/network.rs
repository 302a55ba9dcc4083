//! Networks of IP addresses, as the configuration and host records write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Network of IP addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    /// First address; never an IPv4-mapped one.
    first: IpAddr,
    length: u8,
}

impl Network {
    /// Parses `ADDRESS/LENGTH`, or an address, which is a network of its own.
    /// `::ffff:0:0/96` and networks in it stand for IPv4.
    ///
    /// # Errors
    /// Says what is wrong, and what to write.
    pub fn parse(text: &str) -> Result<Self, NetworkError> {
        let unfit = || NetworkError::Form(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| unfit())?;
        let width = width(address);
        let length = match length {
            Some(digits) if is_number(digits) => digits.parse().map_err(|_| unfit())?,
            Some(_) => return Err(unfit()),
            None => width,
        };
        if length > width {
            return Err(unfit());
        }
        let (address, length) = unmap(address, length);
        let first = masked(address, length);
        if first != address {
            return Err(NetworkError::HostBits {
                text: text.to_owned(),
                network: Self { first, length },
                address,
            });
        }
        Ok(Self { first, length })
    }

    /// Returns whether the address lies in the network. An IPv4-mapped address
    /// (`::ffff:0:0/96`) counts as the IPv4 address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.first.is_ipv4() && masked(address, self.length) == self.first
    }

    /// Returns whether the network is a single address.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.length == width(self.first)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

/// List of networks; few, since each look-up scans all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Box<[Network]>);

impl Networks {
    /// Returns whether the address lies in one of the networks.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// Returns whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the networks in the order in which they were written.
    #[must_use]
    pub fn as_slice(&self) -> &[Network] {
        &self.0
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        Self(networks.into_iter().collect())
    }
}

/// Reasons why a text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// Neither an address nor a network.
    #[error(
        "{0:?} is no network; write \"10.0.0.0/8\", \"2001:db8::/32\", or an address such as \
         \"10.0.0.5\""
    )]
    Form(String),
    /// The address is not the first one of the network.
    #[error(
        "{text:?} has bits set behind its length; write \"{network}\", or \"{address}\" for that address alone"
    )]
    HostBits {
        /// The text.
        text: String,
        /// The network of that length that holds the address.
        network: Network,
        /// The address.
        address: IpAddr,
    },
}

fn is_number(digits: &str) -> bool {
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
}

fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

/// Turns an IPv4-mapped network into that of IPv4.
fn unmap(address: IpAddr, length: u8) -> (IpAddr, u8) {
    match (address.to_canonical(), length.checked_sub(MAPPED)) {
        (IpAddr::V4(v4), Some(rest)) if address.is_ipv6() => (v4.into(), rest),
        _ => (address, length),
    }
}

/// Returns the address with only its first `length` bits.
fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length));
            Ipv4Addr::from_bits(v4.to_bits() & mask.unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length));
            Ipv6Addr::from_bits(v6.to_bits() & mask.unwrap_or(0)).into()
        }
    }
}

/// Length of `::ffff:0:0/96`, the network of IPv4-mapped addresses.
const MAPPED: u8 = 96;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_what_shares_its_first_bits() {
        for (network, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "a00::"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.6"),
            ("192.0.2.6/31", "192.0.2.7", "192.0.2.8"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("2001:db8::/32", "2001:db8:ffff::", "2001:db9::"),
            ("::1", "::1", "::2"),
            ("::ffff:192.0.2.0/120", "192.0.2.200", "192.0.3.0"),
            ("::ffff:0.0.0.0/96", "198.51.100.1", "::1"),
        ] {
            let parsed = Network::parse(network).unwrap();
            assert!(parsed.contains(inside.parse().unwrap()), "{network}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network}");
        }
    }

    #[test]
    fn shows_what_parses_again() {
        for (text, shown) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.7", "192.0.2.7/32"),
            ("2001:DB8::/32", "2001:db8::/32"),
            ("::ffff:192.0.2.0/120", "192.0.2.0/24"),
        ] {
            let parsed = Network::parse(text).unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(Network::parse(shown), Ok(parsed));
        }
    }

    #[test]
    fn an_error_says_what_to_write() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/ 8",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/8/8",
            "10.0.0.0/999",
            "example.com",
            "fe80::1%eth0/64",
        ] {
            let error = Network::parse(text).unwrap_err().to_string();
            assert!(error.contains("write \"10.0.0.0/8\""), "{text}: {error}");
        }
        for (text, remedy) in [
            ("10.0.0.5/8", "write \"10.0.0.0/8\", or \"10.0.0.5\""),
            (
                "2001:db8::1/32",
                "write \"2001:db8::/32\", or \"2001:db8::1\"",
            ),
            (
                "::ffff:10.0.0.5/104",
                "write \"10.0.0.0/8\", or \"10.0.0.5\"",
            ),
        ] {
            let error = Network::parse(text).unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}
