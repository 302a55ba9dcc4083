//! Host names as clients ask for them, and patterns as stores have them.
//!
//! Only a parsed name reaches a path, a key, a query or a URL.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use serde::{Deserialize, Serialize};

/// Fully qualified domain name that a client asked for: lower-case A-labels
/// without a trailing dot, 1 to 253 bytes, never `*`, never an IP address.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(Box<str>);

impl HostName {
    /// Parses what a client or an operator wrote. Unicode becomes A-labels
    /// (UTS 46), upper case lower, a trailing dot is dropped.
    ///
    /// # Errors
    /// Returns which rule the name broke, in words for the person who typed it.
    pub fn parse(input: &str) -> Result<Self, NameError> {
        let ascii = to_ascii(input)?;
        check(&ascii)?;
        Ok(Self(ascii.into()))
    }

    /// Returns the A-label form.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the wildcard that may answer for this name: `*.b.c` for `a.b.c`,
    /// none for a name of one label. A wildcard stands for exactly one label
    /// (RFC 9525, section 6.3).
    #[must_use]
    pub fn wildcard(&self) -> Option<HostPattern> {
        let (_, parent) = self.0.split_once('.')?;
        Some(HostPattern(format!("*.{parent}").into()))
    }

    /// Tells whether `name` is this one or stands below it, as names do in a zone of DNS.
    #[must_use]
    pub fn holds(&self, name: &str) -> bool {
        let above = name.strip_suffix(self.as_str());
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    }

    /// Returns the text behind the first dot; none for a name of one label.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.0.split_once('.').map(|(_, parent)| parent)
    }

    /// Returns the name as people write it, with U-labels.
    #[must_use]
    pub fn to_unicode(&self) -> String {
        idna::domain_to_unicode(&self.0).0
    }
}

/// Pattern of a stored record: an exact name, or `*.` and a parent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "&str")]
pub struct HostPattern(Box<str>);

impl HostPattern {
    /// Parses an exact name or `*.` and a name, by the rules of
    /// [`HostName::parse`].
    ///
    /// # Errors
    /// Returns the errors of [`HostName::parse`], also for a `*` elsewhere.
    pub fn parse(input: &str) -> Result<Self, NameError> {
        match input.strip_prefix("*.") {
            None => Ok(Self(HostName::parse(input)?.0)),
            Some(parent) => {
                let parent = HostName::parse(parent)?;
                let pattern = format!("*.{}", parent.as_str());
                if pattern.len() > MAX_NAME {
                    return Err(NameError::TooLong(pattern.len()));
                }
                Ok(Self(pattern.into()))
            }
        }
    }

    /// Returns the A-label form, with `*.` in front of a wildcard.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the parent of a wildcard: `b.c` for `*.b.c`; none for an exact
    /// name.
    #[must_use]
    pub fn wildcard_parent(&self) -> Option<&str> {
        self.0.strip_prefix("*.")
    }

    /// Returns the text behind the first dot of a wildcard or an exact name; none
    /// for a name of one label.
    #[must_use]
    pub fn parent(&self) -> Option<&str> {
        self.0.split_once('.').map(|(_, parent)| parent)
    }

    /// Tells whether this pattern answers for `name`: equal, or a wildcard exactly
    /// one label above it.
    #[must_use]
    pub fn covers(&self, name: &HostName) -> bool {
        match self.wildcard_parent() {
            None => self.0 == name.0,
            parent => name.parent() == parent,
        }
    }

    /// Tells whether this name of a certificate serves a host of that pattern.
    #[must_use]
    pub fn includes(&self, host: &Self) -> bool {
        self == host || host.exact().is_some_and(|host| self.covers(&host))
    }

    /// Returns the exact name; none for a wildcard.
    #[must_use]
    pub fn exact(&self) -> Option<HostName> {
        (!self.0.starts_with("*.")).then(|| HostName(self.0.clone()))
    }

    /// Returns the pattern as people write it, with U-labels.
    #[must_use]
    pub fn to_unicode(&self) -> String {
        match self.wildcard_parent() {
            None => idna::domain_to_unicode(&self.0).0,
            Some(parent) => format!("*.{}", idna::domain_to_unicode(parent).0),
        }
    }
}

impl TryFrom<&str> for HostPattern {
    type Error = NameError;

    fn try_from(text: &str) -> Result<Self, NameError> {
        Self::parse(text)
    }
}

impl From<HostName> for HostPattern {
    fn from(name: HostName) -> Self {
        Self(name.0)
    }
}

impl From<&HostName> for HostPattern {
    fn from(name: &HostName) -> Self {
        Self(name.0.clone())
    }
}

macro_rules! text_forms {
    ($name:ident) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(input: &str) -> Result<Self, NameError> {
                Self::parse(input)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

text_forms!(HostName);
text_forms!(HostPattern);

/// Reason why a text is no host name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// An empty text, or only a dot.
    #[error("a host name must not be empty")]
    Empty,
    /// A name over 253 bytes (RFC 1035, section 2.3.4).
    #[error("a host name has at most 253 bytes as A-labels, this one {0}")]
    TooLong(usize),
    /// `a..b` or a leading dot.
    #[error("a label between two dots must not be empty")]
    EmptyLabel,
    /// A label over 63 bytes (RFC 1035, section 2.3.4).
    #[error("a label has at most 63 bytes, {0:?} is longer")]
    LabelTooLong(String),
    /// A `-` at either end of a label.
    #[error("a label must not begin or end with '-': {0:?}")]
    Hyphen(String),
    /// A character outside letters, digits, `-` and `_`.
    #[error("{0:?} must not stand in a host name (letters, digits, '-' and '_' may)")]
    Character(char),
    /// A last label of digits alone, as in an IPv4 address, or an IPv6 address.
    #[error("an IP address is no host name")]
    Address,
    /// Unicode that UTS 46 does not map to A-labels.
    #[error("{0:?} is not a valid internationalized name (UTS 46)")]
    Idna(String),
}

fn to_ascii(input: &str) -> Result<String, NameError> {
    // Fast path for ASCII without punycode, which needs no Unicode tables.
    if input.is_ascii() {
        let lower = without_dot(input).to_ascii_lowercase();
        if !lower.contains("xn--") {
            return Ok(lower);
        }
    }
    if input.len() > MAX_INPUT {
        return Err(NameError::TooLong(input.len()));
    }
    Uts46::new()
        .to_ascii(
            input.as_bytes(),
            AsciiDenyList::EMPTY,
            Hyphens::Allow,
            DnsLength::Ignore,
        )
        .map(|name| without_dot(&name).to_owned())
        .map_err(|_| NameError::Idna(input.to_owned()))
}

fn without_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.contains(':')
        && name
            .trim_matches(['[', ']'])
            .parse::<std::net::Ipv6Addr>()
            .is_ok()
    {
        return Err(NameError::Address);
    }
    if name.len() > MAX_NAME {
        return Err(NameError::TooLong(name.len()));
    }
    name.split('.').try_for_each(check_label)?;
    // RFC 1123, section 2.1: a last label that is not alphabetic would make
    // the name look like an address, and RFC 3696 lets no such TLD exist.
    let last = name.rsplit('.').next().unwrap_or(name);
    if last.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NameError::Address);
    }
    Ok(())
}

fn check_label(label: &str) -> Result<(), NameError> {
    if label.is_empty() {
        return Err(NameError::EmptyLabel);
    }
    let allowed = |c: &char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if let Some(bad) = label.chars().find(|c| !allowed(c)) {
        return Err(NameError::Character(bad));
    }
    if label.len() > MAX_LABEL {
        return Err(NameError::LabelTooLong(label.to_owned()));
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(NameError::Hyphen(label.to_owned()));
    }
    Ok(())
}

const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;
/// Bounds the work of the Unicode mapping, which clients can cause.
const MAX_INPUT: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_people_write() {
        for (input, name) in [
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example.", "xn--bcher-kva.example"),
            ("XN--bcher-kva.example", "xn--bcher-kva.example"),
            ("localhost", "localhost"),
            ("関所。jp", "xn--8ous75i.jp"),
            ("1.2.3.example", "1.2.3.example"),
        ] {
            let got = HostName::parse(input).expect(input);
            assert_eq!(got.as_str(), name);
            assert_eq!(
                HostName::parse(name).expect(name),
                got,
                "a name is its own name"
            );
        }
        assert_eq!(
            HostName::parse("bücher.example").unwrap().to_unicode(),
            "bücher.example"
        );
    }

    #[test]
    fn refuses_what_is_no_name() {
        let long = format!("{}.com", "a.".repeat(125));
        let label = format!("{}.com", "a".repeat(64));
        for input in [
            "",
            ".",
            "..",
            "a..b",
            ".a",
            "../etc",
            "a/b",
            "a\\b",
            "a\0b",
            "a:443",
            "a b",
            "*",
            "*.a",
            "a.*.b",
            "-a.b",
            "a-.b",
            "127.0.0.1",
            "::1",
            "[::1]",
            "1.2.3.4.",
            "a.1",
            "xn--\u{301}.b",
            "xn--zzzzzzzzzz99999999.a",
            "Xn--zzzzzzzzzz99999999.a",
            "xN--zzzzzzzzzz99999999.a",
            "a%2e.b",
            "a\u{202e}b.c",
            &long,
            &label,
        ] {
            let got = HostName::parse(input);
            assert!(got.is_err(), "{input:?} gave {got:?}");
        }
        assert!(matches!(
            HostName::parse(&"a".repeat(254)),
            Err(NameError::TooLong(254))
        ));
    }

    #[test]
    fn a_wildcard_stands_for_one_label() {
        let wildcard = HostPattern::parse("*.Example.com").unwrap();
        assert_eq!(wildcard.as_str(), "*.example.com");
        assert!(wildcard.covers(&HostName::parse("a.example.com").unwrap()));
        assert!(!wildcard.covers(&HostName::parse("a.b.example.com").unwrap()));
        assert!(!wildcard.covers(&HostName::parse("example.com").unwrap()));
        assert_eq!(
            HostName::parse("a.example.com").unwrap().wildcard(),
            Some(wildcard)
        );
        assert_eq!(HostName::parse("localhost").unwrap().wildcard(), None);
        for bad in ["*", "*.", "*.*.a", "a.*", "**.a"] {
            assert!(HostPattern::parse(bad).is_err(), "{bad}");
        }
    }
}
