//! Client prefixes: networks that clients are counted by.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Client prefix: /24 of IPv4, /56 of IPv6. One household or office has about
/// that much, and an attacker gets it without effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix(u64);

impl Prefix {
    /// Returns the wider prefix: /16 of IPv4, /48 of IPv6. A provider gives
    /// that much to one customer on request.
    #[must_use]
    pub fn wider(self) -> Self {
        // A wide prefix never equals a /24 or a /56: only wide ones have bit
        // 62.
        Self(((self.0 >> 8) << 8) | WIDE)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 & V4 != 0 {
            let bits = u32::try_from((self.0 << 8) & 0xffff_ff00).expect("32 bits are left");
            write!(f, "{}/24", Ipv4Addr::from_bits(bits))
        } else {
            write!(f, "{}/56", Ipv6Addr::from_bits(u128::from(self.0) << 72))
        }
    }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            // The top byte tells the families apart; no IPv6 /56 uses it.
            IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8) | V4),
            IpAddr::V6(v6) => {
                let top = u64::try_from(v6.to_bits() >> 72).expect("56 bits are left");
                Self(top)
            }
        }
    }
}

const V4: u64 = 1 << 63;
const WIDE: u64 = 1 << 62;
