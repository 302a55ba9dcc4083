//! Address of a request's client, behind proxies that are trusted.

use std::net::{IpAddr, SocketAddr};

use http::header::{HeaderMap, HeaderName};

use crate::limits::network::Networks;

/// Client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// Address for rates, logs and fields.
    pub(crate) address: IpAddr,
    /// Whether the address is the client's. Else it is that of the last proxy, which hides
    /// its client: no list of allowed networks may take it for the client's.
    pub(crate) is_known: bool,
}

/// Returns the client of a request that `peer` sent: the peer, unless it is known and
/// trusted; else the rightmost address of `X-Forwarded-For` that is not. All its
/// field lines are one list. An element that is no address ends the walk at the
/// last good one: what stands left of it was written by strangers.
pub(crate) fn of(peer: Client, fields: &HeaderMap, trusted: &Networks) -> Client {
    let mut client = peer;
    if !peer.is_known || !trusted.contain(peer.address) {
        return client;
    }
    let lines = fields.get_all(X_FORWARDED_FOR).iter().rev();
    for element in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
        let Some(address) = address(element.trim_ascii()) else {
            client.is_known = false;
            break;
        };
        client.address = address;
        if !trusted.contain(address) {
            break;
        }
    }
    client
}

/// Parses an address, with or without a port. IPv6 may stand in brackets.
fn address(element: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(element).ok()?;
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    let address = text.parse().ok().or_else(with_port);
    let address = address.or_else(|| bracketed().map(IpAddr::V6));
    address.map(|address| address.to_canonical())
}

/// Field in which proxies append the addresses that they were asked from.
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::limits::network::Network;

    /// A question mark stands for a client that is not known.
    #[test]
    fn the_rightmost_address_that_is_not_trusted_is_the_client() {
        let trusted = ["10.0.0.0/8", "2001:db8::/32"].map(|text| Network::parse(text).unwrap());
        let trusted = trusted.into_iter().collect();
        for (peer, lines, client) in [
            ("192.0.2.9", &["203.0.113.1"][..], "192.0.2.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.1"], "203.0.113.1"),
            ("::ffff:10.0.0.1", &["203.0.113.1"], "203.0.113.1"),
            ("10.0.0.1", &["198.51.100.1, 203.0.113.1"], "203.0.113.1"),
            ("10.0.0.1", &["198.51.100.1", "203.0.113.1"], "203.0.113.1"),
            (
                "10.0.0.1",
                &["198.51.100.1,203.0.113.1 ,10.0.0.7", "\t2001:db8::7"],
                "203.0.113.1",
            ),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["203.0.113.1, unknown"], "?10.0.0.1"),
            ("10.0.0.1", &["203.0.113.1, _x, 10.0.0.2"], "?10.0.0.2"),
            ("10.0.0.1", &["203.0.113.1,"], "?10.0.0.1"),
            ("10.0.0.1", &["203.0.113.1", "", "10.0.0.2"], "?10.0.0.2"),
            ("10.0.0.1", &["203.0.113.1:8080"], "203.0.113.1"),
            ("10.0.0.1", &["[2001:db9::1]:8080"], "2001:db9::1"),
            ("10.0.0.1", &["[2001:db9::1]"], "2001:db9::1"),
            ("10.0.0.1", &["::ffff:203.0.113.1"], "203.0.113.1"),
            ("10.0.0.1", &["[203.0.113.1]"], "?10.0.0.1"),
            ("10.0.0.1", &["203.0.113.1:"], "?10.0.0.1"),
            ("10.0.0.1", &["203.0.113.01"], "?10.0.0.1"),
        ] {
            let values = lines.iter().map(|line| HeaderValue::from_static(line));
            let fields: HeaderMap = values.map(|value| (X_FORWARDED_FOR, value)).collect();
            let peer = peer.parse().unwrap();
            let found = of(known(peer), &fields, &trusted);
            let expected = Client {
                address: client.trim_start_matches('?').parse().unwrap(),
                is_known: !client.starts_with('?'),
            };
            assert_eq!(found, expected, "{peer} {lines:?}");
            let untrusted = of(known(peer), &fields, &Networks::default());
            assert_eq!(untrusted, known(peer));
        }
    }

    fn known(address: IpAddr) -> Client {
        Client {
            address,
            is_known: true,
        }
    }

    #[test]
    fn bytes_that_are_no_text_end_the_walk() {
        let trusted: Networks = Network::parse("10.0.0.1").into_iter().collect();
        let mut fields = HeaderMap::new();
        let value = HeaderValue::from_bytes(b"203.0.113.1, \xff\xfe").unwrap();
        fields.insert(X_FORWARDED_FOR, value);
        let peer = "10.0.0.1".parse().unwrap();
        let found = of(known(peer), &fields, &trusted);
        assert_eq!((found.address, found.is_known), (peer, false));
    }
}
