//! Path of a request as rules match it, files are found by it, and upstreams
//! get it: decoded once, without dot segments and doubled slashes.
//!
//! Matched and forwarded path are made together, and the second decodes to the
//! first. An upstream therefore never gets a path that no rule has judged.

use std::borrow::Cow;
use std::fmt::Write;

use http::{StatusCode, Uri};

use super::rule::Rule;

/// Checked path of a request.
///
/// - `%2F` and `%5C` stay as they came: to an application they may be part of
///   a name. A plain backslash counts as `%5C`.
/// - `.` and `..` are removed, and doubled slashes become one.
/// - A path that climbs above `/` is refused; so are dot segments in disguise,
///   which an upstream might see: percent-encoded (`%2e%2e`), beside an
///   encoded slash (`..%2f`), or with parameters (`..;a`).
/// - `%00`, a cut escape, and escapes that are not UTF-8 are refused.
/// - `*`, the target of `OPTIONS *`, stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SitePath<'a> {
    decoded: Cow<'a, str>,
    encoded: Cow<'a, str>,
    has_encoded_slash: bool,
}

impl<'a> SitePath<'a> {
    /// Checks the path of a request's target. Allocates only for a path that is
    /// not in its plainest form.
    ///
    /// # Errors
    /// 400, if the path is refused.
    pub(crate) fn parse(uri: &'a Uri) -> Result<Self, StatusCode> {
        Self::of_text(uri.path()).ok_or(StatusCode::BAD_REQUEST)
    }

    /// Checks a path as a URL has it. None if it is refused.
    pub(crate) fn of_text(raw: &'a str) -> Option<Self> {
        if raw == "*" || is_plain(raw) {
            return Some(Self {
                decoded: raw.into(),
                encoded: raw.into(),
                has_encoded_slash: false,
            });
        }
        let mut parts = Parts::default();
        let mut segments = raw.strip_prefix('/')?.split('/').peekable();
        while let Some(segment) = segments.next() {
            let is_last = segments.peek().is_none();
            match segment {
                "" | "." => {}
                ".." => parts.pop()?,
                name => {
                    parts.push(name)?;
                    continue;
                }
            }
            if is_last {
                parts.end();
            }
        }
        // The segment that held one may have been removed since.
        let is_left = |digits| parts.encoded.to_ascii_lowercase().contains(digits);
        let has_encoded_slash = parts.has_encoded_slash && (is_left("%2f") || is_left("%5c"));
        Some(Self {
            decoded: parts.decoded.into(),
            encoded: parts.encoded.into(),
            has_encoded_slash,
        })
    }

    /// Returns the decoded path, which rules match.
    pub(crate) fn as_str(&self) -> &str {
        &self.decoded
    }

    /// Returns the path as an upstream gets it. Decoded, it is
    /// [`SitePath::as_str`].
    pub(crate) fn encoded(&self) -> &str {
        &self.encoded
    }

    /// Returns whether the path holds `%2F`, `%5C` or a backslash: files are
    /// not found by it.
    pub(crate) fn has_encoded_slash(&self) -> bool {
        self.has_encoded_slash
    }

    /// Returns the path that files and upstream get by a rule that matches it:
    /// without the rule's prefix, and with the one that it adds.
    pub(crate) fn rewritten(&self, rule: &Rule) -> SitePath<'_> {
        let mut path = SitePath {
            decoded: self.as_str().into(),
            encoded: self.encoded().into(),
            has_encoded_slash: self.has_encoded_slash,
        };
        let Some(options) = rule.options.as_deref() else {
            return path;
        };
        if self.as_str() == "*" {
            return path;
        }
        if options.strip_prefix {
            path = self.without(&rule.prefix);
        }
        match &options.add_prefix {
            Some(prefix) => path.below(prefix),
            None if path.decoded.is_empty() => path.below("/"),
            None => path,
        }
    }

    /// Returns the rest of the path after the prefix of a rule that matches it, as a URL has
    /// it: empty, or with a slash first. That of `*` is a slash.
    pub(crate) fn rest(&self, prefix: &str) -> Cow<'_, str> {
        match self.as_str() {
            "*" => "/".into(),
            _ => self.without(prefix).encoded,
        }
    }

    /// Takes off a prefix; the rest is empty or begins with a slash. Segments
    /// of both forms correspond: an escaped slash stays escaped.
    fn without(&self, prefix: &str) -> SitePath<'_> {
        let segments = prefix.matches('/').count();
        let mut slashes = self.encoded.match_indices('/').skip(segments);
        let start = slashes.next().map_or(self.encoded.len(), |(at, _)| at);
        SitePath {
            decoded: self.decoded.get(prefix.len()..).unwrap_or_default().into(),
            encoded: self.encoded[start..].into(),
            has_encoded_slash: self.has_encoded_slash,
        }
    }

    /// Puts a decoded prefix before the path.
    fn below(self, prefix: &str) -> Self {
        let prefix = SitePath::of_text(prefix).expect("`add` is a plain path");
        Self {
            encoded: format!("{}{}", prefix.encoded, self.encoded).into(),
            decoded: format!("{}{}", prefix.decoded, self.decoded).into(),
            has_encoded_slash: self.has_encoded_slash,
        }
    }
}

/// Returns the matched and the forwarded form of a path, and whether it holds an
/// encoded slash; none if it is refused.
#[cfg(fuzzing)]
#[must_use]
pub fn site_path(raw: &str) -> Option<(String, String, bool)> {
    let path = SitePath::of_text(raw)?;
    Some((
        path.as_str().to_owned(),
        path.encoded().to_owned(),
        path.has_encoded_slash(),
    ))
}

/// Both forms of a path, while they are made. Each segment has a slash before
/// it.
#[derive(Default)]
struct Parts {
    decoded: String,
    encoded: String,
    has_encoded_slash: bool,
}

impl Parts {
    /// Removes the last segment. None if there is none.
    fn pop(&mut self) -> Option<()> {
        self.decoded.truncate(self.decoded.rfind('/')?);
        self.encoded.truncate(self.encoded.rfind('/')?);
        Some(())
    }

    /// Ends the path with a slash.
    fn end(&mut self) {
        self.decoded.push('/');
        self.encoded.push('/');
    }

    /// Appends a segment, which is neither `.` nor `..`. None if it is refused.
    fn push(&mut self, raw: &str) -> Option<()> {
        self.end();
        let mut decoded = Vec::with_capacity(raw.len());
        // Begin of the name, behind the last encoded slash.
        let mut begin = 0;
        let mut bytes = raw.bytes();
        while let Some(byte) = bytes.next() {
            let is_escape = byte == b'%';
            let byte = match is_escape {
                true => escaped(bytes.next()?, bytes.next()?)?,
                false => byte,
            };
            match byte {
                0 => return None,
                b'\\' | b'/' => {
                    refuse_disguised(&decoded[begin..])?;
                    let left = raw.len() - bytes.len();
                    let text = if is_escape {
                        &raw[left - 3..left]
                    } else {
                        "%5C"
                    };
                    decoded.extend(text.bytes());
                    self.encoded.push_str(text);
                    self.has_encoded_slash = true;
                    begin = decoded.len();
                }
                byte => {
                    decoded.push(byte);
                    // An escape of a delimiter is kept: `%3B` is no `;` to an
                    // application (RFC 3986, section 2.2).
                    if is_unreserved(byte) || !is_escape && is_plain_byte(byte) {
                        self.encoded.push(char::from(byte));
                    } else {
                        write!(self.encoded, "%{byte:02X}").ok()?;
                    }
                }
            }
        }
        refuse_disguised(&decoded[begin..])?;
        self.decoded.push_str(str::from_utf8(&decoded).ok()?);
        Some(())
    }
}

/// Refuses a name that some upstream takes for a dot segment. Java's servers
/// ignore parameters behind `;`.
fn refuse_disguised(name: &[u8]) -> Option<()> {
    let name = name.split(|byte| *byte == b';').next()?;
    (name != b"." && name != b"..").then_some(())
}

/// Returns the byte of an escape with these digits.
fn escaped(high: u8, low: u8) -> Option<u8> {
    let digit = |byte| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Returns whether both forms of a path are its text.
fn is_plain(raw: &str) -> bool {
    let mut previous = b' ';
    raw.starts_with('/')
        && raw.bytes().all(|byte| {
            let doubled = previous == b'/' && matches!(byte, b'/' | b'.');
            previous = byte;
            !doubled && (byte == b'/' || is_plain_byte(byte))
        })
}

/// Returns whether a segment may hold the byte: unreserved, a delimiter, `:` or `@` (RFC
/// 3986, section 3.3).
fn is_plain_byte(byte: u8) -> bool {
    is_unreserved(byte) || matches!(byte, b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'@')
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests;
