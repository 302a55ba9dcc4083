//! Values with units and ranges.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Bytes: `"64MiB"`.
pub(crate) fn size(text: &str, range: &RangeInclusive<usize>) -> Result<usize, String> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40), ("B", 0)];
    let example = "write a whole number with B, KiB, MiB, GiB or TiB, such as \"64MiB\"";
    let (number, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .ok_or_else(|| format!("{text:?} is no size; {example}"))?;
    let bytes = whole(number)
        .and_then(|number| number.checked_mul(1 << shift))
        .and_then(|bytes| usize::try_from(bytes).ok())
        .ok_or_else(|| format!("{text:?} is no size; {example}"))?;
    within(bytes, range, |bytes| Size(*bytes))
}

/// Time: `"60s"`.
pub(crate) fn duration(text: &str, range: &RangeInclusive<Duration>) -> Result<Duration, String> {
    let units = [
        ("ms", 1),
        ("s", 1_000),
        ("m", 60_000),
        ("h", 3_600_000),
        ("d", 86_400_000),
    ];
    let example = "write a whole number with ms, s, m, h or d, such as \"60s\"";
    let (number, factor) = units
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .ok_or_else(|| format!("{text:?} is no duration; {example}"))?;
    let millis = whole(number)
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| format!("{text:?} is no duration; {example}"))?;
    within(Duration::from_millis(millis), range, |time| Time(*time))
}

/// A number without a unit.
pub(crate) fn count(number: i64, range: &RangeInclusive<usize>) -> Result<usize, String> {
    let (least, most) = (range.start(), range.end());
    usize::try_from(number)
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| format!("{number} is out of range; write {least} to {most}"))
}

fn within<T: PartialOrd, S: fmt::Display>(
    value: T,
    range: &RangeInclusive<T>,
    shown: impl Fn(&T) -> S,
) -> Result<T, String> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(format!(
        "{} is out of range; write {} to {}",
        shown(&value),
        shown(range.start()),
        shown(range.end())
    ))
}

fn whole(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

/// Bytes, shown as the configuration has them: `64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let bytes = self.0;
        match units
            .iter()
            .find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift))
        {
            Some((shift, unit)) => write!(f, "{}{unit}", bytes >> shift),
            None => write!(f, "{bytes}B"),
        }
    }
}

struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.as_millis();
        let units = [
            (86_400_000, "d"),
            (3_600_000, "h"),
            (60_000, "m"),
            (1_000, "s"),
        ];
        match units
            .iter()
            .find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit))
        {
            Some((unit, name)) => write!(f, "{}{name}", millis / unit),
            None if millis == 0 => f.write_str("0s"),
            None => write!(f, "{millis}ms"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes() {
        let range = 1 << 10..=1usize << 40;
        for (text, bytes) in [
            ("1024B", 1 << 10),
            ("1KiB", 1 << 10),
            ("64MiB", 64 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(size(text, &range), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "64",
            "64MB",
            "64 MiB",
            "MiB",
            "-1MiB",
            "+1MiB",
            "1.5MiB",
            "64mib",
            "0x10B",
            "99999999999999999999B",
            "18446744073709551615KiB",
        ] {
            let problem = size(text, &range).unwrap_err();
            assert!(problem.contains("such as \"64MiB\""), "{text}: {problem}");
        }
        for text in ["0B", "1023B", "2TiB", "0MiB"] {
            let problem = size(text, &range).unwrap_err();
            assert!(problem.contains("write 1KiB to 1TiB"), "{text}: {problem}");
        }
    }

    #[test]
    fn reads_durations() {
        let range = Duration::from_millis(100)..=Duration::from_secs(86_400);
        for (text, millis) in [
            ("100ms", 100),
            ("60s", 60_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(
                duration(text, &range),
                Ok(Duration::from_millis(millis)),
                "{text}"
            );
        }
        for text in [
            "",
            "60",
            "s",
            "1.5s",
            "-1s",
            "60 s",
            "1min",
            "99999999999999999999s",
        ] {
            let problem = duration(text, &range).unwrap_err();
            assert!(problem.contains("such as \"60s\""), "{text}: {problem}");
        }
        for text in ["0s", "99ms", "25h", "2d"] {
            let problem = duration(text, &range).unwrap_err();
            assert!(problem.contains("write 100ms to 1d"), "{text}: {problem}");
        }
    }

    #[test]
    fn reads_counts() {
        assert_eq!(count(1, &(1..=4)), Ok(1));
        assert_eq!(count(4, &(1..=4)), Ok(4));
        for number in [i64::MIN, -1, 0, 5, i64::MAX] {
            let problem = count(number, &(1..=4)).unwrap_err();
            assert!(problem.contains("write 1 to 4"), "{problem}");
        }
    }
}
