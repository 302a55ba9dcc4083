//! Client prefixes.

use std::net::IpAddr;

/// Client prefix: /24 of IPv4, /56 of IPv6, as the server's budgets count clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefix(u64);

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            // No IPv6 /56 has the top bit of 64: it has 56 bits.
            IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8) | 1 << 63),
            IpAddr::V6(v6) => Self(u64::try_from(v6.to_bits() >> 72).expect("56 bits are left")),
        }
    }
}
