//! Name and password in `Authorization` (RFC 7617).

use data_encoding::BASE64;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use zeroize::Zeroizing;

/// Name of a user and a password, wiped when dropped.
pub(super) struct Credentials {
    /// `NAME:PASSWORD`.
    pair: Zeroizing<Vec<u8>>,
    /// Bytes of the name.
    name: usize,
}

impl Credentials {
    /// Reads the field of a request; none if it is not there, is there twice, or is
    /// malformed or too long.
    pub(super) fn of(fields: &HeaderMap) -> Option<Self> {
        let mut values = fields.get_all(AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return None;
        };
        let (scheme, encoded) = value.as_bytes().split_at_checked("Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let encoded = encoded.trim_ascii();
        if encoded.len() > BASE64.encode_len(MAX_PAIR) {
            return None;
        }
        let mut pair = Zeroizing::new(vec![0; BASE64.decode_len(encoded.len()).ok()?]);
        let length = BASE64.decode_mut(encoded, &mut pair).ok()?;
        pair.truncate(length);
        let name = pair.iter().position(|byte| *byte == b':')?;
        let is_plain = length <= MAX_PAIR && !pair.iter().any(u8::is_ascii_control);
        let is_readable = is_plain && std::str::from_utf8(&pair[..name]).is_ok();
        is_readable.then_some(Self { pair, name })
    }

    /// Returns the name.
    pub(super) fn user(&self) -> &str {
        std::str::from_utf8(&self.pair[..self.name]).unwrap_or_default()
    }

    /// Returns the password, in whichever encoding the client has.
    pub(super) fn password(&self) -> &[u8] {
        &self.pair[self.name + 1..]
    }

    /// Returns both, with a colon between them.
    pub(super) fn pair(&self) -> &[u8] {
        &self.pair
    }
}

/// Bytes of a name and a password.
const MAX_PAIR: usize = 1024;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&[u8]]) -> Option<(String, Vec<u8>)> {
        let mut fields = HeaderMap::new();
        for value in values {
            fields.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        let found = Credentials::of(&fields)?;
        Some((found.user().to_owned(), found.password().to_vec()))
    }

    fn basic(pair: &[u8]) -> Vec<u8> {
        format!("Basic {}", BASE64.encode(pair)).into_bytes()
    }

    #[test]
    fn a_pair_is_read() {
        for (value, user, password) in [
            (
                &b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="[..],
                "Aladdin",
                &b"open sesame"[..],
            ),
            (b"basic  YTpi ", "a", b"b"),
            (&basic(b"a:b:c"), "a", b"b:c"),
            (&basic(b":"), "", b""),
            (
                &basic("\u{e4}:\u{df}".as_bytes()),
                "\u{e4}",
                "\u{df}".as_bytes(),
            ),
            // A password in Latin-1.
            (&basic(b"a:\xdf"), "a", b"\xdf"),
        ] {
            let found = read(&[value]);
            assert_eq!(found, Some((user.to_owned(), password.to_vec())));
        }
        let longest = [&b"a:"[..], &[b'x'; MAX_PAIR - 2]].concat();
        assert!(read(&[&basic(&longest)]).is_some());
    }

    #[test]
    fn all_else_is_no_pair() {
        let too_long = [&b"a:"[..], &[b'x'; MAX_PAIR - 1]].concat();
        let far_too_long = vec![b'A'; 100_000];
        for value in [
            &b""[..],
            b"Basic",
            b"Basic ",
            b"Basi",
            b"Bearer YTpi",
            b"BasicYTpi",
            b"Basic YTp",
            b"Basic YTpi=",
            b"Basic YTpi YTpi",
            b"Basic YTpi\xff",
            &basic(b"no colon"),
            &basic(b"a\0:b"),
            &basic(b"a:b\n"),
            &basic(b"a:b\x7f"),
            &basic(b"\xe4:b"),
            &basic(&too_long),
            &[b"Basic ", &far_too_long[..]].concat(),
        ] {
            assert_eq!(read(&[value]), None, "{}", value.escape_ascii());
        }
        assert_eq!(read(&[]), None);
        assert_eq!(read(&[b"Basic YTpi", b"Basic YTpi"]), None);
    }
}
