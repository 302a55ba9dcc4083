//! Content codings: which one a client takes, and bodies in it.

pub(crate) mod accept;
pub(crate) mod encode;
pub(crate) mod gates;
pub(crate) mod stream;

use http::HeaderValue;

pub(crate) use gates::threads;

/// `Vary` of an answer whose coding depends on what the client takes.
pub(crate) const BY_CODING: HeaderValue = HeaderValue::from_static("Accept-Encoding");
