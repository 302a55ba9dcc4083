//! Content codings: which one a client takes, and bodies in it.

pub(crate) mod accept;
pub(crate) mod encode;
pub(crate) mod gates;
pub(crate) mod stream;
#[cfg(fuzzing)]
pub(crate) mod testing;

use http::header::{ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::site::Coding;
pub(crate) use gates::threads;

/// Returns whether a value is a list that has a name.
pub(crate) fn lists(value: &HeaderValue, name: &str) -> bool {
    let mut names = value.as_bytes().split(|byte| *byte == b',');
    names.any(|listed| listed.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

/// Returns whether the media type begins with one of these, which are in lower case.
pub(crate) fn is_of_type(fields: &HeaderMap, kinds: &[&str]) -> bool {
    let kind = fields.get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    kinds.iter().any(|begin| {
        let own = kind.and_then(|kind| kind.get(..begin.len()));
        own.is_some_and(|own| own.eq_ignore_ascii_case(begin.as_bytes()))
    })
}

/// Changes the fields of an answer to those of its body in a coding.
pub(crate) fn mark(fields: &mut HeaderMap, coding: Coding) {
    for name in OF_IDENTITY {
        fields.remove(name);
    }
    weaken(fields);
    fields.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.as_str()));
}

/// Makes a strong entity tag weak: the bytes that it stands for are others now.
pub(crate) fn weaken(fields: &mut HeaderMap) {
    let tag = fields.get(ETAG).map(HeaderValue::as_bytes);
    if let Some(strong) = tag.filter(|tag| tag.starts_with(b"\"")) {
        let weak = HeaderValue::from_bytes(&[&b"W/"[..], strong].concat());
        fields.insert(ETAG, weak.expect("a value with two letters more"));
    }
}

/// `Vary` of an answer whose coding depends on what the client takes.
pub(crate) const BY_CODING: HeaderValue = HeaderValue::from_static("Accept-Encoding");
/// Fields that tell of the body as it was.
pub(crate) const OF_IDENTITY: [HeaderName; 6] = [
    ACCEPT_RANGES,
    CONTENT_LENGTH,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("repr-digest"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_tell_of_the_coded_body() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("etag", "\"a\""),
            ("accept-ranges", "bytes"),
            ("content-length", "5"),
            ("content-md5", "a"),
            ("digest", "a"),
            ("content-digest", "a"),
            ("repr-digest", "a"),
            ("content-encoding", "identity"),
            ("x-other", "a"),
        ] {
            fields.append(name, HeaderValue::from_static(value));
        }
        mark(&mut fields, Coding::Gzip);
        assert_eq!(fields.len(), 3, "{fields:?}");
        assert_eq!(fields[ETAG], "W/\"a\"");
        assert_eq!(fields[CONTENT_ENCODING], "gzip");
        weaken(&mut fields);
        assert_eq!(fields[ETAG], "W/\"a\"");
    }
}
