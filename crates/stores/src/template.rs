//! Paths, keys and URLs with a place for a host's name.

use std::fmt;

use sekisho_certs::host::HostPattern;

/// A text that holds `{host}` at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostTemplate(String);

impl HostTemplate {
    /// Takes a text that may hold other braces as well.
    ///
    /// # Errors
    /// If `{host}` is missing. The words are to follow what names the text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match text.contains(HOST) {
            true => Ok(Self(text.to_owned())),
            false => Err(format!("has no place for the name; write {HOST}")),
        }
    }

    /// Takes a text in which nothing else stands in braces.
    ///
    /// # Errors
    /// As [`Self::parse`], and for other braces.
    pub(crate) fn parse_strict(text: &str) -> Result<Self, String> {
        match text.replace(HOST, "").contains(['{', '}']) {
            true => Err(format!("may hold only {HOST} in braces")),
            false => Self::parse(text),
        }
    }

    /// Puts a name in its places.
    pub(crate) fn fill(&self, name: &str) -> String {
        self.0.replace(HOST, name)
    }
}

impl fmt::Display for HostTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a pattern in paths: a wildcard is `_.example.com`. A [`HostPattern`]
/// has neither a slash nor an empty label, so no name leaves its folder. All of
/// its characters are unreserved (RFC 3986, section 2.3), so percent-encoding
/// changes nothing about it.
pub(crate) fn segment(host: &HostPattern) -> String {
    match host.wildcard_parent() {
        None => host.as_str().to_owned(),
        Some(parent) => format!("_.{parent}"),
    }
}

/// Where the name stands.
pub(crate) const HOST: &str = "{host}";
