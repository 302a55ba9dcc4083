//! Byte ranges (RFC 9110, section 14).

use std::ops::Range;

/// Part of a file that a `Range` header selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The whole file: another unit, several ranges, or a malformed header. A
    /// server may ignore any `Range` (section 14.2).
    Whole,
    /// These bytes of the file.
    Part(Range<u64>),
    /// No byte of the file: 416.
    Unsatisfiable,
}

/// Parses a `Range` header for a file of `len` bytes.
pub(crate) fn select(header: &[u8], len: u64) -> Selection {
    let Ok(text) = std::str::from_utf8(header) else {
        return Selection::Whole;
    };
    let Some((unit, set)) = text.split_once('=') else {
        return Selection::Whole;
    };
    let Some((first, last)) = set.trim().split_once('-') else {
        return Selection::Whole;
    };
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return Selection::Whole;
    }
    match (number(first), number(last)) {
        (Some(Number::Given(first)), Some(Number::Given(last))) if first <= last => {
            part(first, last.saturating_add(1).min(len), len)
        }
        (Some(Number::Given(first)), Some(Number::None)) => part(first, len, len),
        (Some(Number::None), Some(Number::Given(suffix))) if suffix > 0 => {
            part(len.saturating_sub(suffix), len, len)
        }
        (Some(Number::None), Some(Number::Given(_))) => Selection::Unsatisfiable,
        _ => Selection::Whole,
    }
}

fn part(start: u64, end: u64, len: u64) -> Selection {
    if start < len {
        Selection::Part(start..end)
    } else {
        Selection::Unsatisfiable
    }
}

enum Number {
    None,
    Given(u64),
}

/// Parses digits, or an empty text. A number beyond 64 bits counts as the
/// largest.
fn number(text: &str) -> Option<Number> {
    if text.is_empty() {
        return Some(Number::None);
    }
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| Number::Given(text.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_single_ranges() {
        use Selection::{Part, Unsatisfiable, Whole};
        for (header, expected) in [
            ("bytes=0-0", Part(0..1)),
            ("bytes=0-9", Part(0..10)),
            ("bytes=2-5", Part(2..6)),
            ("bytes=5-", Part(5..10)),
            ("bytes=9-9", Part(9..10)),
            ("bytes=-1", Part(9..10)),
            ("bytes=-10", Part(0..10)),
            ("bytes=-11", Part(0..10)),
            ("bytes=0-99999999999999999999999999", Part(0..10)),
            ("bytes=5-18446744073709551615", Part(5..10)),
            ("bytes= 2-5 ", Part(2..6)),
            ("Bytes=2-5", Part(2..6)),
            ("bytes=10-", Unsatisfiable),
            ("bytes=10-20", Unsatisfiable),
            ("bytes=99999999999999999999999999-", Unsatisfiable),
            ("bytes=-0", Unsatisfiable),
            ("bytes=5-2", Whole),
            ("bytes=0-1,3-4", Whole),
            ("bytes=0-1,", Whole),
            ("bytes=-", Whole),
            ("bytes=", Whole),
            ("bytes", Whole),
            ("", Whole),
            ("bytes=a-b", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=1 - 2", Whole),
            ("bytes=--1", Whole),
            ("bytes=0x1-2", Whole),
            ("lines=0-1", Whole),
        ] {
            assert_eq!(select(header.as_bytes(), 10), expected, "{header}");
        }
        assert_eq!(select(b"bytes=0-\xff", 10), Whole);
    }

    #[test]
    fn nothing_can_be_taken_of_an_empty_file() {
        for header in ["bytes=0-", "bytes=0-0", "bytes=-1"] {
            assert_eq!(select(header.as_bytes(), 0), Selection::Unsatisfiable);
        }
    }
}
