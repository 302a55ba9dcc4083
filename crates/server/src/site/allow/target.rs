//! Networks with ports, as entries of `[sites] allow`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use crate::limits::network::Network;
use crate::site::value::number;

/// Network and ports that an upstream may have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    network: Network,
    ports: RangeInclusive<u16>,
}

impl Target {
    /// Parses `NETWORK`, `NETWORK:PORT` or `NETWORK:FIRST-LAST`; an IPv6
    /// network before a port stands in brackets.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (network, ports) = split(text).ok_or_else(|| unfit(text))?;
        if is_translated(network) {
            return Err(format!(
                "{text:?}: write the IPv4 network that 64:ff9b::/96 stands for"
            ));
        }
        let network = Network::parse(network).map_err(|error| error.to_string())?;
        let ports = match ports {
            Some(ports) => range(ports).ok_or_else(|| unfit(text))?,
            None => 1..=u16::MAX,
        };
        Ok(Self { network, ports })
    }

    /// Returns whether the network and the ports hold an unmapped address.
    pub(super) fn holds(&self, ip: IpAddr, port: u16) -> bool {
        self.network.contains(ip) && self.ports.contains(&port)
    }

    /// Returns whether the entry names one address with one port.
    pub(super) fn is_single(&self) -> bool {
        self.network.is_single() && self.ports.start() == self.ports.end()
    }
}

/// Returns whether an entry of `[sites] allow` means a network or address, and
/// no folder. A name does, too, and is then refused: a name is judged by what
/// it resolves to.
pub(super) fn is_like(text: &str) -> bool {
    if text.starts_with(['/', '.']) {
        return false;
    }
    let first = text.split(['/', ':']).next().unwrap_or_default();
    text.contains(':') || first.parse::<Ipv4Addr>().is_ok() || is_dotted(first)
}

/// Returns the address that counts: IPv4 for an IPv4-mapped one, and for one
/// that a NAT64 gateway translates (RFC 6052, section 2.1).
pub(crate) fn unmapped(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => match v6.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                IpAddr::V4((u32::from(high) << 16 | u32::from(low)).into())
            }
            _ => v6.into(),
        },
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// Returns whether an unmapped address is none of another server: unspecified
/// (which connects to this machine), link-local, multicast, or of a cloud's
/// metadata, which hands out credentials.
pub(super) fn is_special(ip: IpAddr) -> bool {
    let is_special = match ip {
        IpAddr::V4(v4) => {
            v4.octets()[0] == 0 || v4.is_link_local() || v4.is_multicast() || v4.is_broadcast()
        }
        IpAddr::V6(v6) => v6.is_unspecified() || v6.is_unicast_link_local() || v6.is_multicast(),
    };
    is_special || METADATA.contains(&ip)
}

fn is_dotted(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    text.contains('.') && text.bytes().all(is_part)
}

/// Returns whether a network lies in that of NAT64. No address is compared with
/// it: theirs are unmapped first.
fn is_translated(text: &str) -> bool {
    let first = text.split('/').next().unwrap_or_default();
    let first: Option<Ipv6Addr> = first.parse().ok();
    first.is_some_and(|first| first.segments()[..6] == TRANSLATED)
}

/// Splits an entry into network and ports.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (network, ports) = rest.split_once(']')?;
        return match ports {
            "" => Some((network, None)),
            ports => Some((network, Some(ports.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((network, ports)) if !ports.contains(':') => Some((network, Some(ports))),
        _ => Some((text, None)),
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |digits: &str| number(digits).filter(|port| *port > 0);
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some(first..=last)
}

fn unfit(text: &str) -> String {
    format!(
        "{text:?} is neither a folder nor a network; write \"/srv\", \"unix:/run/apps\", \
         \"cgi:/srv/cgi\", \"127.0.0.0/8\", \"127.0.0.1:3000-3999\" or \"[::1]:8080\" (names are judged by the \
         addresses that they resolve to)"
    )
}

/// First segments of addresses that NAT64 gateways translate.
const TRANSLATED: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Metadata services that are not link-local: those of AWS and Google over
/// IPv6, of Alibaba, Oracle and Azure.
const METADATA: [IpAddr; 6] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];
