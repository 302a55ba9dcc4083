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
    match named(header, len) {
        None => Selection::Whole,
        Some(range) if range.start < len => Selection::Part(range.start..range.end.min(len)),
        Some(_) => Selection::Unsatisfiable,
    }
}

/// Returns the range that a header names, which may reach beyond the file.
fn named(header: &[u8], len: u64) -> Option<Range<u64>> {
    let (unit, set) = std::str::from_utf8(header).ok()?.split_once('=')?;
    let range = match set.trim().split_once('-')? {
        ("", last) => len.saturating_sub(number(last)?)..len,
        (first, "") => number(first)?..len,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first..last.saturating_add(1))?
        }
    };
    let is_known = unit.trim().eq_ignore_ascii_case("bytes");
    is_known.then_some(range)
}

/// Parses digits. A number beyond 64 bits counts as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
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
