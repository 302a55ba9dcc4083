//! Keys of clients and cookies, and the servers that they keep.

use std::net::IpAddr;

use http::header::{COOKIE, HeaderMap};

use crate::site::{Address, Balance};

/// Returns a hash of a client, by which it keeps its server: of the address, or of
/// an IPv6 network of 64 bits, in which a client changes its address.
pub(in crate::upstream) fn client(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(v4) => hash(&[&v4.octets()]),
        IpAddr::V6(v6) => hash(&[&v6.octets()[..8]]),
    }
}

/// Returns a hash of the cookie that a site names, if the client sent it.
pub(in crate::upstream) fn cookie_of(balance: &Balance, fields: &HeaderMap) -> Option<u64> {
    let Balance::Cookie(name) = balance else {
        return None;
    };
    let fields = fields.get_all(COOKIE).iter();
    let mut cookies = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    cookies.find_map(|cookie| {
        let value = cookie.trim_ascii().strip_prefix(name.as_bytes())?;
        Some(hash(&[value.strip_prefix(b"=")?]))
    })
}

/// Returns the score of a server for a key, by weight (weighted rendezvous hashing).
/// The server with the highest score gets the key's requests. A server that goes
/// moves no key of others, and one that comes takes its share from each. All
/// processes agree: their hashes have no seed.
pub(in crate::upstream) fn score(key: u64, address: &Address, weight: u16) -> f64 {
    let server = match address {
        Address::Tcp { host, port } => hash(&[host.as_bytes(), &port.to_be_bytes()]),
        Address::Unix(path) => hash(&[path.as_os_str().as_encoded_bytes()]),
    };
    let mixed = mix(key ^ mix(server));
    // 53 bits, as many as the fraction of an f64 has; never 0.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let uniform = ((mixed >> 11) + 1) as f64 / (1u64 << 53) as f64;
    f64::from(weight) / (-uniform.ln()).max(f64::MIN_POSITIVE)
}

/// FNV-1a of the parts, each with its end. Anybody can find values for a server of
/// their choice, which gains them nothing.
fn hash(parts: &[&[u8]]) -> u64 {
    let bytes = parts
        .iter()
        .flat_map(|part| part.iter().map(|byte| u64::from(*byte)).chain([0x100]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ byte).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Finalizer of `SplitMix64`: each bit of the input changes half of the output's.
pub(in crate::upstream) fn mix(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u64 = 20_000;

    fn address(number: usize) -> Address {
        Address::Tcp {
            host: format!("10.0.0.{number}").into(),
            port: 80,
        }
    }

    /// Returns the server of a key, of those numbered.
    fn keeps(key: u64, servers: &[(usize, u16)]) -> usize {
        let score = |(number, weight): &(usize, u16)| score(key, &address(*number), *weight);
        let best = servers.iter().max_by(|a, b| score(a).total_cmp(&score(b)));
        best.unwrap().0
    }

    fn is_near(count: u64, parts: u64, all: u64) -> bool {
        count.abs_diff(KEYS * parts / all) < KEYS / 50
    }

    #[test]
    fn keys_spread_by_weight() {
        let servers = [(1, 1), (2, 1), (3, 2)];
        let mut kept = [0; 4];
        for key in 0..KEYS {
            kept[keeps(mix(key), &servers)] += 1;
        }
        assert!(is_near(kept[1], 1, 4), "{kept:?}");
        assert!(is_near(kept[2], 1, 4), "{kept:?}");
        assert!(is_near(kept[3], 2, 4), "{kept:?}");
    }

    #[test]
    fn a_server_that_goes_moves_only_its_keys() {
        let (all, rest) = ([(1, 1), (2, 1), (3, 1)], [(1, 1), (3, 1)]);
        for key in (0..1_000).map(mix) {
            let before = keeps(key, &all);
            assert!(before == 2 || keeps(key, &rest) == before);
        }
    }

    #[test]
    fn a_client_is_its_address_or_its_network() {
        let of = |text: &str| client(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
    }

    fn cookie(field: &str) -> Option<u64> {
        let fields = HeaderMap::from_iter([(COOKIE, field.parse().unwrap())]);
        cookie_of(&Balance::Cookie("session".into()), &fields)
    }

    #[test]
    fn the_cookie_is_found_by_its_whole_name() {
        let value = cookie("session=a1b2c3");
        assert!(value.is_some());
        assert_eq!(cookie("a=b; session=a1b2c3; c=d"), value);
        assert_ne!(cookie("session=a1b2c4"), value);
        for other in [
            "sessions=a1b2c3",
            "a=session=a1b2c3",
            "session",
            "Session=a1b2c3",
        ] {
            assert_eq!(cookie(other), None, "{other}");
        }
    }

    #[test]
    fn servers_of_one_configuration_agree() {
        // Values of another version would move all clients during an upgrade.
        let key = cookie("session=a1b2c3").unwrap();
        assert_eq!(key, 0xf8ad_83ef_cbc4_9a87);
        assert_eq!(keeps(key, &[(1, 1), (2, 1), (3, 1)]), 3);
    }
}
