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
    guard: Guard,
}

impl Answer {
    pub(super) fn new(body: Body, mut guard: Guard) -> Self {
        guard.answered();
        // HTTP/2 does not ask for the first piece before there is room for it.
        if !http_body::Body::is_end_stream(&body) {
            guard.offer();
        }
        Self { body, guard }
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        this.guard.take();
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if matches!(frame, Poll::Ready(Some(Ok(_)))) && !this.body.is_end_stream() {
            this.guard.offer();
        }
        frame
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
    /// The request's body may still come.
    has_body: bool,
    /// The client is to take something before more is asked for.
    offered: bool,
}

impl Guard {
    pub(super) fn new(pace: &Arc<Pace>, has_body: bool) -> Self {
        pace.begin(has_body);
        Self {
            pace: Arc::clone(pace),
            has_body,
            offered: false,
        }
    }

    fn answered(&mut self) {
        self.pace.answered(std::mem::take(&mut self.has_body));
    }

    fn offer(&mut self) {
        self.offered = true;
        self.pace.offer();
    }

    fn take(&mut self) {
        if std::mem::take(&mut self.offered) {
            self.pace.take();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.answered();
        self.take();
        self.pace.end();
    }
}
