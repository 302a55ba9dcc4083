//! Ids of requests, which tell one request in the logs of several servers.

use aws_lc_rs::rand;
use http::header::{HeaderMap, HeaderName, HeaderValue};

/// Returns the id of a request: that of its field, if the peer is trusted and
/// the field is one readable value, else a random one.
pub(super) fn of(fields: &HeaderMap, trusted: bool) -> HeaderValue {
    if trusted {
        let mut values = fields.get_all(X_REQUEST_ID).iter();
        if let (Some(value), None) = (values.next(), values.next())
            && is_readable(value.as_bytes())
        {
            return value.clone();
        }
    }
    random()
}

/// Returns whether an id is visible ASCII without the characters that end a text in a
/// log.
fn is_readable(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    (1..=LONGEST).contains(&id.len()) && id.iter().all(is_plain)
}

/// Makes 128 random bits, in hexadecimal.
fn random() -> HeaderValue {
    let mut bits = [0; 16];
    // The generator of aws-lc never fails; ids of zeros would only be useless.
    let _ = rand::fill(&mut bits);
    let text = format!("{:032x}", u128::from_be_bytes(bits));
    HeaderValue::try_from(text).expect("hexadecimal digits")
}

/// Field with the id of a request.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Bytes of an id from elsewhere.
const LONGEST: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn with(ids: &[&[u8]]) -> HeaderMap {
        let ids = ids.iter().map(|id| HeaderValue::from_bytes(id).unwrap());
        ids.map(|id| (X_REQUEST_ID, id)).collect()
    }

    #[test]
    fn a_trusted_peers_id_is_kept_if_it_is_readable() {
        let longest = [b'x'; LONGEST];
        for id in [b"a".as_slice(), b"0-9/a.b:c_d;e=f", &longest] {
            assert_eq!(of(&with(&[id]), true).as_bytes(), id);
            assert_ne!(of(&with(&[id]), false).as_bytes(), id);
        }
        for ids in [
            &[b"".as_slice()][..],
            &[&[b'x'; LONGEST + 1]],
            &[b"a b"],
            &[b"a\"b"],
            &[b"a'b"],
            &[b"a\\b"],
            &[b"a\tb"],
            &[b"a\xe9"],
            &[b"a", b"b"],
            &[],
        ] {
            let id = of(&with(ids), true);
            assert!(!ids.contains(&id.as_bytes()), "{ids:?}");
            assert_eq!(id.len(), 32);
            assert!(id.as_bytes().iter().all(u8::is_ascii_hexdigit));
        }
        assert_ne!(random(), random());
    }
}
