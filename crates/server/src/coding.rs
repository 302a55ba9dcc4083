//! Content codings: which one a client takes, and bodies in it.

pub(crate) mod accept;
pub(crate) mod encode;
pub(crate) mod gates;
pub(crate) mod stream;

use http::HeaderValue;

pub(crate) use gates::threads;

/// Mark of an answer whose coding is chosen, in its extensions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen;

/// Returns whether `Cache-Control` forbids to change the content (RFC 9111, section 5.2.2.6).
pub(crate) fn forbids_transform(value: &HeaderValue) -> bool {
    let mut directives = value.as_bytes().split(|byte| *byte == b',');
    directives.any(|directive| directive.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// `Vary` of an answer whose coding depends on what the client takes.
pub(crate) const BY_CODING: HeaderValue = HeaderValue::from_static("Accept-Encoding");
