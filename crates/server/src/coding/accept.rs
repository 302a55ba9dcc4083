//! Codings that a client takes (`Accept-Encoding`, RFC 9110, section 12.5.3).

use std::cmp::Reverse;

use http::HeaderMap;
use http::header::{ACCEPT_ENCODING, RANGE};

use crate::site::Coding;

/// Weights that a client gives to codings, in thousandths: 0 for one that it does not take.
/// They stand in the order of [`Coding`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted(pub(super) [u16; 3]);

impl Accepted {
    /// Reads the fields of a request, in which all lines of `Accept-Encoding` are one list.
    /// A malformed element is skipped, and of two with one name the last counts. A client
    /// without the field takes no coding; nor does it take one that it likes less than
    /// `identity`. A client that refuses `identity` and all codings gets it all the same. One
    /// that asks for a range takes none: ranges are of the content itself.
    pub(crate) fn of(fields: &HeaderMap) -> Self {
        if fields.contains_key(RANGE) {
            return Self::default();
        }
        let lines = fields.get_all(ACCEPT_ENCODING).iter();
        let elements = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
        let mut weights = [None; NAMES.len()];
        for (name, weight) in elements.take(MAX_ELEMENTS).filter_map(element) {
            let is_named = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
            if let Some(place) = NAMES.iter().position(is_named) {
                weights[place] = Some(weight);
            }
        }
        let [br, zstd, gzip, x_gzip, identity, others] = weights;
        let least = identity.unwrap_or(0);
        Self([br, zstd, gzip.or(x_gzip)].map(|own| {
            let weight = own.or(others).filter(|weight| *weight >= least);
            weight.unwrap_or(0)
        }))
    }

    /// Returns those of these codings that the client takes, the best first, equal ones in the
    /// order that they have here.
    pub(crate) fn order(self, of: &[Coding]) -> impl Iterator<Item = Coding> {
        let mut taken = of.to_vec();
        taken.retain(|coding| self.0[*coding as usize] > 0);
        taken.sort_by_key(|coding| Reverse(self.0[*coding as usize]));
        taken.into_iter()
    }
}

/// Returns the name and the weight of an element; None if it is malformed.
fn element(text: &[u8]) -> Option<(&[u8], u16)> {
    let mut parts = text.splitn(2, |byte| *byte == b';');
    let name = parts.next()?.trim_ascii();
    let weight = parts.next().map_or(Some(WHOLE), |part| {
        let part = part.trim_ascii();
        thousandths(part.strip_prefix(b"q=").or(part.strip_prefix(b"Q="))?)
    });
    Some((name, weight?))
}

/// Parses a weight from `0` to `1`, with at most three digits behind the point.
fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, digits) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', digits @ ..] => (whole, digits),
        _ => return None,
    };
    let mut all = [*whole, b'0', b'0', b'0'];
    all.get_mut(1..=digits.len())?.copy_from_slice(digits);
    let is_number = all.iter().all(u8::is_ascii_digit);
    let weight: u16 = str::from_utf8(&all).ok()?.parse().ok()?;
    (is_number && weight <= WHOLE).then_some(weight)
}

/// Names in a list: codings, the old name of gzip (RFC 9110, section 8.4.1.3), no coding, and
/// all that the list does not name.
const NAMES: [&str; 6] = ["br", "zstd", "gzip", "x-gzip", "identity", "*"];
/// Weight of an element that gives none.
const WHOLE: u16 = 1000;
/// Elements that are read: browsers send five.
const MAX_ELEMENTS: usize = 64;

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const ALL: [Coding; 3] = [Coding::Br, Coding::Zstd, Coding::Gzip];

    fn accepted(lines: &[&str]) -> Accepted {
        let mut fields = HeaderMap::new();
        for line in lines {
            let line = HeaderValue::from_bytes(line.as_bytes()).unwrap();
            fields.append(ACCEPT_ENCODING, line);
        }
        Accepted::of(&fields)
    }

    fn order(accepted: Accepted, of: &[Coding]) -> Vec<&'static str> {
        accepted.order(of).map(Coding::as_str).collect()
    }

    #[test]
    fn the_best_coding_is_first() {
        let browser = "gzip, deflate, br, zstd";
        let table: &[(&[&str], &[&str])] = &[
            (&[], &[]),
            (&[""], &[]),
            (&[browser], &["br", "zstd", "gzip"]),
            (&["gzip"], &["gzip"]),
            (&["GZIP"], &["gzip"]),
            (&["x-gzip"], &["gzip"]),
            (&["deflate"], &[]),
            (&["*"], &["br", "zstd", "gzip"]),
            (&["*, br;q=0"], &["zstd", "gzip"]),
            (&["*;q=0, gzip"], &["gzip"]),
            (&["*;q=0"], &[]),
            (&["br;q=0.5, gzip;q=0.8"], &["gzip", "br"]),
            (&["br;q=0.801, gzip;q=0.8"], &["br", "gzip"]),
            (&["br;q=1.000, gzip;q=0.999"], &["br", "gzip"]),
            (&["gzip;q=0"], &[]),
            (&["gzip;q=0.000"], &[]),
            (&["gzip;q=0."], &[]),
            (&["gzip;q=1."], &["gzip"]),
            (&["gzip;q=0.001"], &["gzip"]),
            (&["gzip ; Q=0.5\t,\tbr"], &["br", "gzip"]),
            (&["gzip", "br"], &["br", "gzip"]),
            (&["gzip;q=0", "gzip"], &["gzip"]),
            (&["gzip, x-gzip;q=0"], &["gzip"]),
            (&["identity"], &[]),
            (&["identity;q=0"], &[]),
            (&["identity;q=0, gzip"], &["gzip"]),
            (&["identity, gzip;q=0.5"], &[]),
            (&["identity;q=0.5, gzip;q=0.5, br;q=0.4"], &["gzip"]),
            (&["gzip, identity"], &["gzip"]),
        ];
        for (lines, expected) in table {
            assert_eq!(order(accepted(lines), &ALL), *expected, "{lines:?}");
        }
    }

    #[test]
    fn malformed_elements_are_skipped() {
        for element in [
            "gzip;",
            "gzip;q",
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.001",
            "gzip;q=0.1234",
            "gzip;q=.5",
            "gzip;q=-1",
            "gzip;q=+1",
            "gzip;q=1e0",
            "gzip;q=0.5;q=1",
            "gzip; q = 1",
            "gzip;level=9",
            "gzip br",
            "\"gzip\"",
            "gz\u{fc}ip",
            ";q=1",
            ",,,",
        ] {
            assert_eq!(order(accepted(&[element]), &ALL), [""; 0], "{element}");
            let beside = format!("{element}, br");
            assert_eq!(order(accepted(&[&beside]), &ALL), ["br"], "{beside}");
        }
    }

    #[test]
    fn a_site_chooses_among_equal_ones() {
        let accepted = accepted(&["gzip, br"]);
        for (of, expected) in [
            (&[Coding::Gzip, Coding::Br][..], Some(Coding::Gzip)),
            (&[Coding::Br, Coding::Gzip], Some(Coding::Br)),
            (&[Coding::Zstd], None),
            (&[], None),
        ] {
            assert_eq!(accepted.order(of).next(), expected, "{of:?}");
        }
    }

    #[test]
    fn a_list_is_read_up_to_a_bound() {
        let long = "a,".repeat(MAX_ELEMENTS);
        assert_eq!(accepted(&[&long, "gzip"]), Accepted::default());
        let (first, last) = long.split_at(long.len() - 4);
        assert_eq!(order(accepted(&[first, "gzip", last]), &ALL), ["gzip"]);
    }

    #[test]
    fn a_range_is_of_the_content_itself() {
        let gzip = HeaderValue::from_static("gzip");
        let mut fields = HeaderMap::from_iter([(ACCEPT_ENCODING, gzip)]);
        assert_ne!(Accepted::of(&fields), Accepted::default());
        fields.insert(RANGE, HeaderValue::from_static("bytes=0-1"));
        assert_eq!(Accepted::of(&fields), Accepted::default());
    }

    proptest! {
        #[test]
        fn weights_decide(
            weights in vec((select(&["br", "zstd", "gzip", "other"][..]), 0..=1000u16), 0..6),
            case in any::<bool>(),
        ) {
            let list: Vec<_> = weights
                .iter()
                .map(|(name, weight)| {
                    let name = if case { name.to_uppercase() } else { (*name).to_owned() };
                    format!("{name};q={}.{:03}", weight / 1000, weight % 1000)
                })
                .collect();
            // A list may be split into several lines (RFC 9110, section 5.3).
            let joined = accepted(&[&list.join(" ,\t")]);
            let lines: Vec<_> = list.iter().map(String::as_str).collect();
            prop_assert_eq!(accepted(&lines), joined);
            for coding in ALL {
                let mut named = weights.iter().rev();
                let weight = named.find(|(name, _)| *name == coding.as_str());
                prop_assert_eq!(joined.0[coding as usize], weight.map_or(0, |(_, weight)| *weight));
            }
            if let Some(first) = joined.order(&ALL).next() {
                prop_assert!(joined.0[first as usize] > 0);
                for other in ALL {
                    prop_assert!(joined.0[other as usize] <= joined.0[first as usize]);
                }
            }
        }

        #[test]
        fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..200)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let fields = HeaderMap::from_iter([(ACCEPT_ENCODING, value)]);
                let accepted = Accepted::of(&fields);
                prop_assert!(accepted.0.iter().all(|weight| *weight <= WHOLE));
            }
        }
    }
}
