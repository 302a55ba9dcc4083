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
#[derive(Debug)]
pub(crate) struct NotedFraming {
    /// Length of the request's body, [`CHUNKED`], or [`TAKEN`].
    body: AtomicU64,
    /// The last head has `Content-Length`, which hyper drops beside
    /// `Transfer-Encoding`.
    has_length: AtomicBool,
}

impl Default for NotedFraming {
    fn default() -> Self {
        Self {
            body: AtomicU64::new(TAKEN),
            has_length: AtomicBool::new(false),
        }
    }
}

impl NotedFraming {
    /// Notes that hyper reads the end of a head, and whether that has `Content-Length`.
    pub(crate) fn head_ended(&self, has_length: bool) {
        self.has_length.store(has_length, Relaxed);
    }

    /// Notes the length of a request's body, none if it is chunked, before the stream is
    /// read on. Returns whether the head has `Content-Length`.
    pub(crate) fn note(&self, length: Option<u64>) -> bool {
        self.body.store(length.unwrap_or(CHUNKED), Relaxed);
        self.has_length.load(Relaxed)
    }

    /// Returns how the body of the last request is framed, once.
    pub(crate) fn take(&self) -> Option<Framing> {
        match self.body.swap(TAKEN, Relaxed) {
            TAKEN => None,
            CHUNKED => Some(Framing::Chunked),
            length => Some(Framing::Length(length)),
        }
    }
}

/// Values that no length has: hyper takes none beyond `u64::MAX - 2`.
const CHUNKED: u64 = u64::MAX - 1;
const TAKEN: u64 = u64::MAX;
