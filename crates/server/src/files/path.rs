//! Turns a request's path into a path below the root.

use std::borrow::Cow;

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Path that may be opened below a root: decoded, relative, with single slashes
/// and without control characters. No segment begins with a dot, except a
/// leading `.well-known`. A directory's path is empty or ends with a slash.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilePath<'a>(Cow<'a, str>);

impl<'a> FilePath<'a> {
    /// Parses the path of a request's target, as it was sent.
    pub(crate) fn parse(raw: &'a str) -> Result<Self, PathError> {
        let Some(relative) = raw.strip_prefix('/') else {
            return Err(PathError::Malformed);
        };
        if relative.len() > MAX_PATH {
            return Err(PathError::Missing);
        }
        let decoded = decode(relative)?;
        let mut doubled = decoded.starts_with('/');
        let mut first = true;
        for segment in decoded.split('/').filter(|segment| !segment.is_empty()) {
            check(segment, first)?;
            first = false;
        }
        doubled |= decoded.contains("//");
        Ok(Self(if doubled { single(&decoded) } else { decoded }))
    }

    /// Returns the path relative to the root.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the target of the directory with this name. It begins with one
    /// slash: with two it would name another host.
    pub(crate) fn with_slash(&self, query: Option<&str>) -> String {
        let path = utf8_percent_encode(&self.0, ENCODED);
        match query {
            Some(query) => format!("/{path}/?{query}"),
            None => format!("/{path}/"),
        }
    }
}

/// Reasons why a path is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    /// Well-behaved clients don't send the path: 400.
    Malformed,
    /// The path is never served, even if it exists: 404.
    Missing,
}

impl PathError {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Missing => StatusCode::NOT_FOUND,
        }
    }
}

/// Percent-decodes once: a `%` that remains is part of the file's name.
fn decode(raw: &str) -> Result<Cow<'_, str>, PathError> {
    if !raw.contains('%') {
        return Ok(Cow::Borrowed(raw));
    }
    let bytes = raw.as_bytes();
    for (at, _) in raw.match_indices('%') {
        let digits = bytes.get(at + 1..at + 3).ok_or(PathError::Malformed)?;
        if !digits.iter().all(u8::is_ascii_hexdigit) || digits.eq_ignore_ascii_case(b"2f") {
            return Err(PathError::Malformed);
        }
    }
    percent_decode_str(raw)
        .decode_utf8()
        .map_err(|_| PathError::Malformed)
}

fn check(segment: &str, first: bool) -> Result<(), PathError> {
    if segment == ".." || segment.chars().any(|c| c.is_control() || c == '\\') {
        return Err(PathError::Malformed);
    }
    let hidden = segment.starts_with('.') && !(first && segment == WELL_KNOWN);
    if hidden || segment.len() > MAX_SEGMENT {
        return Err(PathError::Missing);
    }
    Ok(())
}

fn single(path: &str) -> Cow<'static, str> {
    let mut clean = String::with_capacity(path.len());
    for segment in path.split_inclusive('/').filter(|segment| *segment != "/") {
        clean.push_str(segment);
    }
    Cow::Owned(clean)
}

/// The one hidden name that clients may fetch (RFC 8615).
const WELL_KNOWN: &str = ".well-known";
/// Longest path that Linux opens (`PATH_MAX`).
const MAX_PATH: usize = 4095;
/// Longest segment that Linux opens (`NAME_MAX`).
const MAX_SEGMENT: usize = 255;
/// Characters to percent-encode: all that RFC 3986, section 3.3, does not allow
/// in a path.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_and_joins() {
        for (raw, path) in [
            ("/", ""),
            ("/index.html", "index.html"),
            ("/a/b.css", "a/b.css"),
            ("/a/", "a/"),
            ("//", ""),
            ("//a", "a"),
            ("/a//b", "a/b"),
            ("/a///b//", "a/b/"),
            ("/a%20b", "a b"),
            ("/%61", "a"),
            ("/b%C3%BCcher", "bücher"),
            ("/%2561", "%61"),
            ("/%252e%252e/x", "%2e%2e/x"),
            ("/a%3Fb%23c", "a?b#c"),
            ("/a..b", "a..b"),
            ("/a./b", "a./b"),
            (
                "/.well-known/acme-challenge/x",
                ".well-known/acme-challenge/x",
            ),
            ("//.well-known/x", ".well-known/x"),
            ("/C:", "C:"),
        ] {
            assert_eq!(FilePath::parse(raw).expect(raw).as_str(), path, "{raw}");
        }
    }

    #[test]
    fn a_plain_path_is_not_copied() {
        let parsed = FilePath::parse("/a/b.css").unwrap();
        assert!(matches!(parsed.0, Cow::Borrowed(_)));
    }

    #[test]
    fn refuses_what_could_lead_astray() {
        let deep = "/a".repeat(3000);
        let long = format!("/{}", "a".repeat(256));
        for (raw, refused) in [
            ("", PathError::Malformed),
            ("*", PathError::Malformed),
            ("a", PathError::Malformed),
            ("/..", PathError::Malformed),
            ("/a/../b", PathError::Malformed),
            ("/%2e%2E/a", PathError::Malformed),
            ("/a%2fb", PathError::Malformed),
            ("/a%2Fb", PathError::Malformed),
            ("/a%5Cb", PathError::Malformed),
            ("/a\\b", PathError::Malformed),
            ("/a%00", PathError::Malformed),
            ("/a%0a", PathError::Malformed),
            ("/a%7f", PathError::Malformed),
            ("/a%C2%85", PathError::Malformed),
            ("/%", PathError::Malformed),
            ("/%2", PathError::Malformed),
            ("/%zz", PathError::Malformed),
            ("/%+1", PathError::Malformed),
            ("/%c0%ae", PathError::Malformed),
            ("/%ff", PathError::Malformed),
            ("/.", PathError::Missing),
            ("/...", PathError::Missing),
            ("/.git/config", PathError::Missing),
            ("/a/.env", PathError::Missing),
            ("/a/.well-known/x", PathError::Missing),
            ("/.well-known2", PathError::Missing),
            ("/.well-known/.secret", PathError::Missing),
            ("/%2ehtaccess", PathError::Missing),
            (&deep, PathError::Missing),
            (&long, PathError::Missing),
        ] {
            assert_eq!(FilePath::parse(raw), Err(refused), "{raw}");
        }
    }

    #[test]
    fn a_directory_is_named_on_this_host() {
        for (raw, query, location) in [
            ("/a", None, "/a/"),
            ("/a", Some("q=1"), "/a/?q=1"),
            ("//evil.example", None, "/evil.example/"),
            ("/b%C3%BCcher%20x", None, "/b%C3%BCcher%20x/"),
            ("/a%3Fb%23c%25", None, "/a%3Fb%23c%25/"),
        ] {
            let path = FilePath::parse(raw).unwrap();
            assert_eq!(path.with_slash(query), location, "{raw}");
        }
    }
}
