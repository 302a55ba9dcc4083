//! Content codings: which one a client takes, and bodies in it.

pub(crate) mod accept;
pub(crate) mod encode;
pub(crate) mod gates;
pub(crate) mod stream;
#[cfg(fuzzing)]
pub(crate) mod testing;

use http::HeaderValue;

pub(crate) use gates::threads;

/// Mark of an answer whose coding is chosen, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen;

/// Returns whether `Cache-Control` forbids to change the content (RFC 9111, section 5.2.2.6).
pub(crate) fn forbids_transform(value: &HeaderValue) -> bool {
    lists(value, "no-transform")
}

/// Returns whether a value is a list that has a name.
pub(crate) fn lists(value: &HeaderValue, name: &str) -> bool {
    let mut names = value.as_bytes().split(|byte| *byte == b',');
    names.any(|listed| listed.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
}

/// `Vary` of an answer whose coding depends on what the client takes.
pub(crate) const BY_CODING: HeaderValue = HeaderValue::from_static("Accept-Encoding");
