//! Encodes the header for an upstream.

use std::net::{IpAddr, SocketAddr};

use super::parse::{SIGNATURE, TCP4, TCP6};
use crate::site::ProxyVersion;

/// Encodes the header of a connection that `client` made to `server`. If one of
/// them has IPv4 and the other IPv6, both are written as IPv6.
pub(crate) fn encode(version: ProxyVersion, client: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let (mut from, mut to) = (client.ip().to_canonical(), server.ip().to_canonical());
    if from.is_ipv4() != to.is_ipv4() {
        (from, to) = (mapped(from), mapped(to));
    }
    let (name, family) = match from {
        IpAddr::V4(_) => ("TCP4", TCP4),
        IpAddr::V6(_) => ("TCP6", TCP6),
    };
    let (source, destination) = (client.port(), server.port());
    match version {
        ProxyVersion::V1 => {
            format!("PROXY {name} {from} {to} {source} {destination}\r\n").into_bytes()
        }
        ProxyVersion::V2 => {
            let addresses = [octets(from), octets(to)].concat();
            let length = u16::try_from(addresses.len() + 4).expect("at most 36");
            [
                SIGNATURE,
                &[VERSION_2_PROXY, family],
                &length.to_be_bytes(),
                &addresses,
                &source.to_be_bytes(),
                &destination.to_be_bytes(),
            ]
            .concat()
        }
    }
}

/// Encodes the header of a connection on which this server speaks for itself.
pub(crate) fn encode_local(version: ProxyVersion) -> Vec<u8> {
    match version {
        ProxyVersion::V1 => b"PROXY UNKNOWN\r\n".to_vec(),
        ProxyVersion::V2 => [SIGNATURE, &[VERSION_2_LOCAL, 0, 0, 0]].concat(),
    }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

fn mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        v6 @ IpAddr::V6(_) => v6,
    }
}

/// Version 2, command `LOCAL`: no addresses follow.
const VERSION_2_LOCAL: u8 = 0x20;
/// Version 2, command `PROXY`: the client's addresses follow.
const VERSION_2_PROXY: u8 = 0x21;

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::super::parse::parse;
    use super::*;

    #[test]
    fn both_versions_have_the_form_of_the_specification() {
        let (client, server) = (
            "192.0.2.1:49152".parse().unwrap(),
            "198.51.100.2:443".parse().unwrap(),
        );
        assert_eq!(
            encode(ProxyVersion::V1, client, server),
            b"PROXY TCP4 192.0.2.1 198.51.100.2 49152 443\r\n"
        );
        assert_eq!(
            encode(ProxyVersion::V2, client, server),
            b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc6\x33\x64\x02\xc0\0\x01\xbb"
        );
    }

    #[test]
    fn what_is_encoded_is_parsed() {
        for (client, server, read) in [
            ("192.0.2.1:1", "198.51.100.2:443", "192.0.2.1:1"),
            ("[2001:db8::1]:65535", "[::1]:8443", "[2001:db8::1]:65535"),
            ("[2001:db8::1]:9", "192.0.2.1:443", "[2001:db8::1]:9"),
            ("192.0.2.1:9", "[2001:db8::1]:443", "192.0.2.1:9"),
            ("[::ffff:192.0.2.1]:9", "192.0.2.2:443", "192.0.2.1:9"),
        ] {
            let (client, server) = (client.parse().unwrap(), server.parse().unwrap());
            let source = Source::Client(read.parse().unwrap());
            for version in [ProxyVersion::V1, ProxyVersion::V2] {
                let header = encode(version, client, server);
                assert_eq!(parse(&header), Ok(Some((source, header.len()))));
            }
        }
    }
}
