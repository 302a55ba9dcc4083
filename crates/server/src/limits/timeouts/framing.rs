//! Note of how requests of HTTP/1.1 are framed, from hyper to the stream and back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

/// Framing of the last request. Relaxed: all tasks of a connection run on its
/// worker's thread.
#[derive(Debug, Default)]
pub(crate) struct NotedFraming {
    /// Length of the request's body + 1, [`CHUNKED`], or [`TAKEN`].
    body: AtomicU64,
    /// The last head has `Content-Length`, which hyper drops beside
    /// `Transfer-Encoding`.
    has_length: AtomicBool,
}

impl NotedFraming {
    /// Notes that hyper reads the end of a head, and whether that has `Content-Length`.
    pub(crate) fn head_ended(&self, has_length: bool) {
        self.has_length.store(has_length, Relaxed);
    }

    /// Notes the length of a request's body, none if it is chunked, before the stream is
    /// read on. Returns whether the head has `Content-Length`.
    pub(crate) fn note(&self, length: Option<u64>) -> bool {
        let body = length.map_or(CHUNKED, |length| length.saturating_add(1));
        self.body.store(body, Relaxed);
        self.has_length.load(Relaxed)
    }

    /// Returns how the body of the last request is framed, once.
    pub(crate) fn take(&self) -> Option<Framing> {
        match self.body.swap(TAKEN, Relaxed) {
            TAKEN => None,
            CHUNKED => Some(Framing::Chunked),
            body => Some(Framing::Length(body - 1)),
        }
    }
}

/// Values that no length + 1 has: hyper takes none beyond `u64::MAX - 2`.
const CHUNKED: u64 = u64::MAX;
const TAKEN: u64 = 0;
