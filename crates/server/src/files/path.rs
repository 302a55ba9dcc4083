//! Turns a request's path into a path below the root.

use http::StatusCode;

use crate::site::SitePath;

/// Path that may be opened below a root: decoded, relative, with single slashes
/// and without control characters. No segment begins with a dot, except a
/// leading `.well-known`. A directory's path is empty or ends with a slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePath<'a>(&'a str);

impl<'a> FilePath<'a> {
    /// Checks the path of a request, as its rule rewrote it.
    ///
    /// # Errors
    /// 400 for a path that well-behaved clients don't send, 404 for one that is never
    /// served, even if it exists.
    pub(crate) fn parse(path: &'a SitePath<'_>) -> Result<Self, StatusCode> {
        if path.has_encoded_slash() {
            return Err(StatusCode::BAD_REQUEST);
        }
        Self::of_decoded(path.as_str())
    }

    /// Checks a decoded path, which begins with a slash.
    pub(super) fn of_decoded(path: &'a str) -> Result<Self, StatusCode> {
        let Some(relative) = path.strip_prefix('/') else {
            return Err(StatusCode::BAD_REQUEST);
        };
        if relative.len() > MAX_PATH {
            return Err(StatusCode::NOT_FOUND);
        }
        let mut first = true;
        for segment in relative.split('/') {
            check(segment, first)?;
            first = false;
        }
        Ok(Self(relative))
    }

    /// Returns the path up to the end of one of its segments.
    pub(super) fn up_to(&self, end: usize) -> Self {
        Self(&self.0[..end])
    }

    /// Returns whether this is the path of a folder, for which its index stands.
    pub(super) fn is_folder(&self) -> bool {
        self.0.is_empty() || self.0.ends_with('/')
    }

    /// Returns the path relative to the root.
    pub(crate) fn as_str(&self) -> &'a str {
        self.0
    }
}

/// Returns the target of the directory that a request names without a slash at
/// its end. It begins with one slash: with two it would name another host.
pub(crate) fn with_slash(path: &SitePath<'_>, query: Option<&str>) -> String {
    let path = path.encoded();
    match query {
        Some(query) => format!("{path}/?{query}"),
        None => format!("{path}/"),
    }
}

fn check(segment: &str, first: bool) -> Result<(), StatusCode> {
    if segment == ".." || segment.chars().any(|c| c.is_control() || c == '\\') {
        return Err(StatusCode::BAD_REQUEST);
    }
    let hidden = segment.starts_with('.') && !(first && segment == WELL_KNOWN);
    if hidden || segment.len() > MAX_SEGMENT {
        return Err(StatusCode::NOT_FOUND);
    }
    Ok(())
}

/// The one hidden name that clients may fetch (RFC 8615).
const WELL_KNOWN: &str = ".well-known";
/// Longest path that Linux opens (`PATH_MAX`).
const MAX_PATH: usize = 4095;
/// Longest segment that Linux opens (`NAME_MAX`).
const MAX_SEGMENT: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Result<String, StatusCode> {
        let path = SitePath::of_text(raw).ok_or(StatusCode::BAD_REQUEST)?;
        Ok(FilePath::parse(&path)?.as_str().to_owned())
    }

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
            ("/a/../b", "b"),
            ("/.", ""),
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
            assert_eq!(parse(raw).expect(raw), path, "{raw}");
        }
    }

    #[test]
    fn refuses_what_could_lead_astray() {
        let deep = "/a".repeat(3000);
        let long = format!("/{}", "a".repeat(256));
        for (raw, refused) in [
            ("", StatusCode::BAD_REQUEST),
            ("*", StatusCode::BAD_REQUEST),
            ("a", StatusCode::BAD_REQUEST),
            ("/..", StatusCode::BAD_REQUEST),
            ("/a/../../b", StatusCode::BAD_REQUEST),
            ("/%2e%2E/a", StatusCode::BAD_REQUEST),
            ("/a%2fb", StatusCode::BAD_REQUEST),
            ("/a%2Fb", StatusCode::BAD_REQUEST),
            ("/a%5Cb", StatusCode::BAD_REQUEST),
            ("/a\\b", StatusCode::BAD_REQUEST),
            ("/a%00", StatusCode::BAD_REQUEST),
            ("/a%0a", StatusCode::BAD_REQUEST),
            ("/a%7f", StatusCode::BAD_REQUEST),
            ("/a%C2%85", StatusCode::BAD_REQUEST),
            ("/%", StatusCode::BAD_REQUEST),
            ("/%2", StatusCode::BAD_REQUEST),
            ("/%zz", StatusCode::BAD_REQUEST),
            ("/%+1", StatusCode::BAD_REQUEST),
            ("/%c0%ae", StatusCode::BAD_REQUEST),
            ("/%ff", StatusCode::BAD_REQUEST),
            ("/...", StatusCode::NOT_FOUND),
            ("/.git/config", StatusCode::NOT_FOUND),
            ("/a/.env", StatusCode::NOT_FOUND),
            ("/a/.well-known/x", StatusCode::NOT_FOUND),
            ("/.well-known2", StatusCode::NOT_FOUND),
            ("/.well-known/.secret", StatusCode::NOT_FOUND),
            ("/%2ehtaccess", StatusCode::NOT_FOUND),
            (&deep, StatusCode::NOT_FOUND),
            (&long, StatusCode::NOT_FOUND),
        ] {
            assert_eq!(parse(raw), Err(refused), "{raw}");
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
            let path = SitePath::of_text(raw).unwrap();
            assert_eq!(with_slash(&path, query), location, "{raw}");
        }
    }
}
