//! Values with units, as the configuration and site documents write them.

use std::fmt;
use std::str::FromStr;

/// Unit of a number, with its spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes: `64MiB`.
    Bytes,
    /// Milliseconds: `60s`.
    Time,
    /// A number without a unit.
    Count,
}

impl Unit {
    /// Reads a whole number with one of the suffixes.
    ///
    /// # Errors
    /// Says what to write.
    pub fn parse(self, text: &str) -> Result<u64, String> {
        self.value(text).ok_or_else(|| match self {
            Self::Bytes => format!(
                "{text:?} is no size; write a whole number with B, KiB, MiB, GiB or TiB, \
                 such as \"64MiB\""
            ),
            Self::Time => format!(
                "{text:?} is no duration; write a whole number with ms, s, m, h or d, \
                 such as \"60s\""
            ),
            Self::Count => format!("{text:?} is no whole number"),
        })
    }

    /// Writes a value with the largest suffix that divides it.
    #[must_use]
    pub fn display(self, value: u64) -> String {
        let (suffix, factor) = self
            .suffixes()
            .iter()
            .find(|(_, factor)| value > 0 && value.is_multiple_of(*factor))
            .copied()
            .unwrap_or(self.zero());
        format!("{}{suffix}", value / factor)
    }

    fn value(self, text: &str) -> Option<u64> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, suffix) = text.split_at(digits);
        let (_, factor) = self.suffixes().iter().find(|(unit, _)| *unit == suffix)?;
        number.parse::<u64>().ok()?.checked_mul(*factor)
    }

    fn suffixes(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Bytes => &[
                ("TiB", 1 << 40),
                ("GiB", 1 << 30),
                ("MiB", 1 << 20),
                ("KiB", 1 << 10),
                ("B", 1),
            ],
            Self::Time => &[
                ("d", 86_400_000),
                ("h", 3_600_000),
                ("m", 60_000),
                ("s", 1_000),
                ("ms", 1),
            ],
            Self::Count => &[("", 1)],
        }
    }

    /// Returns the suffix of 0.
    fn zero(self) -> (&'static str, u64) {
        match self {
            Self::Bytes => ("B", 1),
            Self::Time => ("s", 1_000),
            Self::Count => ("", 1),
        }
    }
}

/// Reads a whole number of digits alone: `parse` would accept a `+` before them.
pub(crate) fn number<T: FromStr>(digits: &str) -> Option<T> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

/// Number of bytes, shown as in the configuration: `64MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Unit::Bytes.display(self.0 as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_sizes_and_writes_them() {
        for (text, bytes) in [
            ("0B", 0),
            ("1023B", 1023),
            ("1KiB", 1 << 10),
            ("64MiB", 64 << 20),
            ("2GiB", 2 << 30),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(Unit::Bytes.parse(text), Ok(bytes), "{text}");
            assert_eq!(Unit::Bytes.display(bytes), text);
        }
        assert_eq!(Unit::Bytes.parse("1024B"), Ok(1024));
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
            let problem = Unit::Bytes.parse(text).unwrap_err();
            assert!(problem.contains("such as \"64MiB\""), "{text}: {problem}");
        }
    }

    #[test]
    fn reads_durations_and_writes_them() {
        for (text, millis) in [
            ("0s", 0),
            ("100ms", 100),
            ("61s", 61_000),
            ("5m", 300_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(Unit::Time.parse(text), Ok(millis), "{text}");
            assert_eq!(Unit::Time.display(millis), text);
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
            let problem = Unit::Time.parse(text).unwrap_err();
            assert!(problem.contains("such as \"60s\""), "{text}: {problem}");
        }
    }
}
