use proptest::prelude::*;

use super::super::encode;
use super::*;
use crate::site::ProxyVersion;

fn client(address: &str) -> Source {
    Source::Client(address.parse().unwrap())
}

fn binary(version: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[version, family], &length, block].concat()
}

/// Addresses 192.0.2.1 and 192.0.2.2, ports 49152 and 443.
const BLOCK4: &[u8] = b"\xc0\0\x02\x01\xc0\0\x02\x02\xc0\0\x01\xbb";

#[test]
fn headers_name_their_source() {
    let tlvs = [BLOCK4, b"\x02\0\x09a.example\x20\0\x05\x01\0\0\0\0"].concat();
    let long = [BLOCK4, &[0; LONGEST_BLOCK - BLOCK4.len()]].concat();
    let block6: Vec<u8> = (0..36).collect();
    for (header, source) in [
        (
            b"PROXY TCP4 192.0.2.1 192.0.2.2 49152 443\r\n".to_vec(),
            client("192.0.2.1:49152"),
        ),
        (
            b"PROXY TCP6 2001:db8::1 ::1 0 65535\r\n".to_vec(),
            client("[2001:db8::1]:0"),
        ),
        (
            b"PROXY TCP6 ::ffff:192.0.2.1 ::1 9 443\r\n".to_vec(),
            client("192.0.2.1:9"),
        ),
        (
            b"PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"
                .to_vec(),
            client("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
        ),
        (b"PROXY UNKNOWN\r\n".to_vec(), Source::Unknown),
        (
            b"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n"
                .to_vec(),
            Source::Unknown,
        ),
        (binary(0x21, 0x11, BLOCK4), client("192.0.2.1:49152")),
        (binary(0x21, 0x11, &tlvs), client("192.0.2.1:49152")),
        (binary(0x21, 0x11, &long), client("192.0.2.1:49152")),
        (
            binary(0x21, 0x21, &block6),
            client("[1:203:405:607:809:a0b:c0d:e0f]:8225"),
        ),
        (binary(0x20, 0x00, b""), Source::Local),
        (binary(0x20, 0x11, BLOCK4), Source::Local),
        (binary(0x20, 0xff, b""), Source::Local),
        (binary(0x21, 0x00, b""), Source::Unknown),
        (binary(0x21, 0x12, BLOCK4), Source::Unknown),
        (binary(0x21, 0x31, &[0; 216]), Source::Unknown),
    ] {
        let length = header.len();
        assert_eq!(parse(&header), Ok(Some((source, length))), "{header:?}");
        // A longer text of the same beginning has the same header.
        let more = [header.as_slice(), b"\x16\x03\x01 more\r\n"].concat();
        assert_eq!(parse(&more), Ok(Some((source, length))), "{header:?}");
        for cut in 0..length {
            assert_eq!(parse(&header[..cut]), Ok(None), "{cut} of {header:?}");
        }
    }
}

#[test]
fn everything_else_is_malformed() {
    let line = |text: &str| format!("PROXY {text}\r\n").into_bytes();
    for bytes in [
        b"\x16\x03\x01\x02\0".to_vec(),
        b"GET / HTTP/1.1\r\n".to_vec(),
        b"PROXI ".to_vec(),
        b"proxy TCP4".to_vec(),
        b"PROXY\tTCP4".to_vec(),
        b"\r\n\r\n\0\r\nQUIT\r".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\n".to_vec(),
        b"PROXY TCP4 192.0.2.1 192.0.2.\xff 1 2\r\n".to_vec(),
        line(""),
        line("TCP4"),
        line("TCP4 192.0.2.1 192.0.2.2 1"),
        line("TCP4 192.0.2.1 192.0.2.2 1 2 3"),
        line("TCP4 192.0.2.1 192.0.2.2 1 2 "),
        line("TCP4  192.0.2.1 192.0.2.2 1 2"),
        line("TCP4 192.0.2.1 192.0.2.2 01 2"),
        line("TCP4 192.0.2.1 192.0.2.2 +1 2"),
        line("TCP4 192.0.2.1 192.0.2.2 65536 2"),
        line("TCP4 192.0.2.1 192.0.2.2  2"),
        line("TCP4 192.0.2.256 192.0.2.2 1 2"),
        line("TCP4 192.0.2.01 192.0.2.2 1 2"),
        line("TCP4 ::1 ::1 1 2"),
        line("TCP6 192.0.2.1 192.0.2.2 1 2"),
        line("TCP6 fe80::1%eth0 ::1 1 2"),
        line("UDP4 192.0.2.1 192.0.2.2 1 2"),
        line("UNKNOWNS"),
        line(&format!("UNKNOWN {}", "x".repeat(LONGEST_LINE))),
        [b"PROXY ".as_slice(), &[b'x'; LONGEST_LINE]].concat(),
        binary(0x11, 0x11, BLOCK4),
        binary(0x31, 0x11, BLOCK4),
        binary(0x22, 0x11, BLOCK4),
        binary(0x2f, 0x11, BLOCK4),
        binary(0x21, 0x13, BLOCK4),
        binary(0x21, 0x41, BLOCK4),
        binary(0x21, 0x11, &BLOCK4[..11]),
        binary(0x21, 0x21, &[0; 35]),
        binary(0x21, 0x11, &vec![0; LONGEST_BLOCK + 1]),
    ] {
        assert!(
            parse(&bytes).is_err(),
            "{:?}",
            bytes.escape_ascii().to_string()
        );
    }
}

proptest! {
    #[test]
    fn a_header_has_no_shorter_one_in_it(bytes in mutated()) {
        if let Ok(Some((_, length))) = parse(&bytes) {
            for cut in 0..length {
                prop_assert_eq!(parse(&bytes[..cut]), Ok(None));
            }
            prop_assert_eq!(parse(&bytes[..length]), parse(&bytes));
        }
    }

    #[test]
    fn addresses_come_through(client: SocketAddr, server: SocketAddr) {
        let wanted = SocketAddr::new(client.ip().to_canonical(), client.port());
        for version in [ProxyVersion::V1, ProxyVersion::V2] {
            let header = encode(version, client, server);
            let parsed = parse(&header);
            prop_assert_eq!(parsed, Ok(Some((Source::Client(wanted), header.len()))));
        }
    }
}

/// Makes headers of which some bytes are replaced.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let header = (any::<bool>(), any::<SocketAddr>(), any::<SocketAddr>());
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3);
    let more = prop::collection::vec(any::<u8>(), 0..64);
    (header, changes, more).prop_map(|((binary, client, server), changes, more)| {
        let version = if binary {
            ProxyVersion::V2
        } else {
            ProxyVersion::V1
        };
        let mut bytes = encode(version, client, server);
        bytes.extend(more);
        for (index, byte) in changes {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        bytes
    })
}
