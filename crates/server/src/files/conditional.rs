//! Conditional requests (RFC 9110, section 13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::{
    AsHeaderName, HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE,
    IF_UNMODIFIED_SINCE,
};

/// Validators of a file, which a client's copy is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validators<'a> {
    /// The entity tag, quotes and `W/` included.
    pub(crate) etag: &'a [u8],
    /// The last write, seconds since the Unix epoch.
    pub(crate) modified: Option<u64>,
}

/// Result of a request's conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Answer as without conditions.
    Proceed,
    /// 304: the client's copy is still good.
    NotModified,
    /// 412: the state that the client wants to continue from is gone.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD in the order of section 13.2.2.
pub(crate) fn evaluate(headers: &HeaderMap, file: Validators<'_>) -> Verdict {
    if headers.contains_key(IF_MATCH) {
        if !lists(headers, IF_MATCH, |tag| strong_equal(tag, file.etag)) {
            return Verdict::Failed;
        }
    } else if let Some(since) = date(headers, IF_UNMODIFIED_SINCE)
        && file.modified.is_some_and(|modified| modified > since)
    {
        return Verdict::Failed;
    }
    if headers.contains_key(IF_NONE_MATCH) {
        if lists(headers, IF_NONE_MATCH, |tag| weak_equal(tag, file.etag)) {
            return Verdict::NotModified;
        }
    } else if let Some(since) = date(headers, IF_MODIFIED_SINCE)
        && file.modified.is_some_and(|modified| modified <= since)
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Returns whether a range applies (section 13.1.5): without `If-Range`, or if
/// it names exactly this state of the file.
pub(crate) fn range_applies(headers: &HeaderMap, file: Validators<'_>, now: SystemTime) -> bool {
    let Some(condition) = headers.get(IF_RANGE) else {
        return true;
    };
    let condition = condition.as_bytes().trim_ascii();
    if condition.ends_with(b"\"") {
        return strong_equal(condition, file.etag);
    }
    let (Some(named), Some(modified)) = (parse_date(condition), file.modified) else {
        return false;
    };
    // A date is a strong validator once a second has passed (section 8.8.2.2).
    let passed = now
        .duration_since(UNIX_EPOCH + Duration::from_secs(modified))
        .is_ok_and(|age| age >= Duration::from_secs(1));
    named == modified && passed
}

/// Returns whether any tag of a list matches; `*` always does. A malformed list
/// is used up to its first error.
fn lists(headers: &HeaderMap, name: impl AsHeaderName, matches: impl Fn(&[u8]) -> bool) -> bool {
    headers.get_all(name).iter().any(|value| {
        let mut rest = value.as_bytes().trim_ascii();
        if rest == b"*" {
            return true;
        }
        while let Some((tag, behind)) = next_tag(rest) {
            if matches(tag) {
                return true;
            }
            rest = behind;
        }
        false
    })
}

/// Splits a list after its first tag. The quotes may contain commas.
fn next_tag(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = list
        .iter()
        .position(|byte| !matches!(byte, b',' | b' ' | b'\t'))?;
    let list = &list[start..];
    let opening = if list.starts_with(b"W/") { 2 } else { 0 };
    if list.get(opening) != Some(&b'"') {
        return None;
    }
    let closing = opening + 1 + list[opening + 1..].iter().position(|byte| *byte == b'"')?;
    let (tag, behind) = list.split_at(closing + 1);
    Some((tag, behind))
}

fn strong_equal(one: &[u8], other: &[u8]) -> bool {
    !one.starts_with(b"W/") && one == other
}

fn weak_equal(one: &[u8], other: &[u8]) -> bool {
    opaque(one) == opaque(other)
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Parses the date of one header; a malformed date counts as no condition.
fn date(headers: &HeaderMap, name: impl AsHeaderName) -> Option<u64> {
    parse_date(headers.get(name)?.as_bytes())
}

fn parse_date(text: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(text).ok()?.trim()).ok()?;
    Some(date.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const TAG: &[u8] = b"\"a-1\"";
    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const MODIFIED: u64 = 784_111_777;
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn conditions_come_to_a_verdict() {
        use Verdict::{Failed, NotModified, Proceed};
        let table: &[(&[(&'static str, &str)], Verdict)] = &[
            (&[], Proceed),
            (&[("if-none-match", "\"a-1\"")], NotModified),
            (&[("if-none-match", "W/\"a-1\"")], NotModified),
            (&[("if-none-match", "*")], NotModified),
            (&[("if-none-match", "\"b\", \"a-1\"")], NotModified),
            (&[("if-none-match", "\"x,y\" ,W/\"a-1\"")], NotModified),
            (&[("if-none-match", "\"b\"")], Proceed),
            (&[("if-none-match", "a-1")], Proceed),
            (&[("if-none-match", "\"a-1")], Proceed),
            (&[("if-none-match", "")], Proceed),
            (&[("if-none-match", "w/\"a-1\"")], Proceed),
            (&[("if-modified-since", BEFORE)], Proceed),
            (&[("if-modified-since", AT)], NotModified),
            (&[("if-modified-since", AFTER)], NotModified),
            (&[("if-modified-since", "yesterday")], Proceed),
            (
                &[("if-modified-since", "Thu, 01 Jan 1969 00:00:00 GMT")],
                Proceed,
            ),
            // A tag takes precedence over a date.
            (
                &[("if-none-match", "\"b\""), ("if-modified-since", AFTER)],
                Proceed,
            ),
            (
                &[("if-none-match", "\"a-1\""), ("if-modified-since", BEFORE)],
                NotModified,
            ),
            (&[("if-match", "\"a-1\"")], Proceed),
            (&[("if-match", "*")], Proceed),
            (&[("if-match", "\"b\" , \"a-1\"")], Proceed),
            (&[("if-match", "\"b\"")], Failed),
            (&[("if-match", "W/\"a-1\"")], Failed),
            (&[("if-match", "rubbish")], Failed),
            (&[("if-unmodified-since", BEFORE)], Failed),
            (&[("if-unmodified-since", AT)], Proceed),
            (&[("if-unmodified-since", "rubbish")], Proceed),
            (
                &[("if-match", "\"a-1\""), ("if-unmodified-since", BEFORE)],
                Proceed,
            ),
            (
                &[("if-match", "\"b\""), ("if-none-match", "\"a-1\"")],
                Failed,
            ),
            (
                &[("if-match", "\"a-1\""), ("if-none-match", "\"a-1\"")],
                NotModified,
            ),
        ];
        let file = Validators {
            etag: TAG,
            modified: Some(MODIFIED),
        };
        for (pairs, verdict) in table {
            assert_eq!(evaluate(&headers(pairs), file), *verdict, "{pairs:?}");
        }
    }

    #[test]
    fn a_weak_tag_is_only_weakly_equal() {
        let file = Validators {
            etag: b"W/\"a-1\"",
            modified: None,
        };
        let verdict = |name, value| evaluate(&headers(&[(name, value)]), file);
        assert_eq!(verdict("if-none-match", "\"a-1\""), Verdict::NotModified);
        assert_eq!(verdict("if-none-match", "W/\"a-1\""), Verdict::NotModified);
        assert_eq!(verdict("if-match", "\"a-1\""), Verdict::Failed);
        assert_eq!(verdict("if-match", "W/\"a-1\""), Verdict::Failed);
        assert_eq!(verdict("if-modified-since", AFTER), Verdict::Proceed);
        assert_eq!(verdict("if-unmodified-since", BEFORE), Verdict::Proceed);
    }

    #[test]
    fn several_lines_are_one_list() {
        let file = Validators {
            etag: TAG,
            modified: None,
        };
        let lines = headers(&[("if-none-match", "\"b\""), ("if-none-match", "\"a-1\"")]);
        assert_eq!(evaluate(&lines, file), Verdict::NotModified);
    }

    #[test]
    fn a_range_needs_the_very_same_state() {
        let now = UNIX_EPOCH + Duration::from_secs(MODIFIED + 1);
        let file = Validators {
            etag: TAG,
            modified: Some(MODIFIED),
        };
        for (value, applies) in [
            ("\"a-1\"", true),
            ("W/\"a-1\"", false),
            ("\"b\"", false),
            (AT, true),
            (BEFORE, false),
            (AFTER, false),
            ("rubbish", false),
            ("", false),
        ] {
            let got = range_applies(&headers(&[("if-range", value)]), file, now);
            assert_eq!(got, applies, "{value}");
        }
        assert!(range_applies(&HeaderMap::new(), file, now));
        let too_soon = UNIX_EPOCH + Duration::from_secs(MODIFIED);
        assert!(!range_applies(
            &headers(&[("if-range", AT)]),
            file,
            too_soon
        ));
        let weak = Validators {
            etag: b"W/\"a-1\"",
            modified: None,
        };
        assert!(!range_applies(
            &headers(&[("if-range", "W/\"a-1\"")]),
            weak,
            now
        ));
    }
}
