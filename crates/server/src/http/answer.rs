//! An answer that knows when it ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::pace::Pace;
use crate::site::Body;

/// A site's answer; dropping it ends the request.
pub(crate) struct Answer {
    body: Body,
    _guard: Guard,
}

impl Answer {
    pub(super) fn new(body: Body, guard: Guard) -> Self {
        Self {
            body,
            _guard: guard,
        }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A request in flight, from its head to the end of its answer.
pub(super) struct Guard {
    pace: Arc<Pace>,
    has_body: bool,
}

impl Guard {
    pub(super) fn new(pace: &Arc<Pace>, has_body: bool) -> Self {
        pace.begin(has_body);
        Self {
            pace: Arc::clone(pace),
            has_body,
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.pace.end(self.has_body);
    }
}
