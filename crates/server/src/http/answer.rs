//! An answer that knows when it ends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::streams::Progress;
use crate::body::Body;
use crate::timeouts::ConnTimeouts;

/// A site's answer; dropping it ends the request.
pub(crate) struct Answer {
    body: Body,
    /// Of the last frame of `body`, what was not handed out.
    rest: Bytes,
    guard: Guard,
}

impl Answer {
    pub(super) fn new(body: Body, mut guard: Guard) -> Self {
        guard.answered();
        if !http_body::Body::is_end_stream(&body) {
            guard.wait();
        }
        Self {
            body,
            rest: Bytes::new(),
            guard,
        }
    }

    /// The next piece: over HTTP/2 at most what a client must take within one
    /// limit, so that no more waits in h2 behind a closed window.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.rest.is_empty() {
            let frame = match ready!(http_body::Body::poll_frame(Pin::new(&mut self.body), cx)) {
                Some(Ok(frame)) if self.guard.progress.is_some() => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(data) => self.rest = data,
                Err(frame) => return Poll::Ready(Some(Ok(frame))),
            }
        }
        let piece = self.rest.split_to(self.rest.len().min(PIECE));
        Poll::Ready(Some(Ok(Frame::data(piece))))
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
        this.guard.sent();
        let piece = this.poll_piece(cx);
        // The last one too: hyper keeps it until there is room.
        if matches!(piece, Poll::Ready(Some(Ok(_)))) {
            this.guard.wait();
        }
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // hyper asks before the first piece.
        self.body.size_hint()
    }
}

/// A request in flight, from its head to the end of its answer.
pub(super) struct Guard {
    timeouts: Arc<ConnTimeouts>,
    /// The request's body may still come.
    has_body: bool,
    /// Only of HTTP/2: over HTTP/1.1 what is not taken blocks the socket.
    progress: Option<Arc<Progress>>,
}

impl Guard {
    pub(super) fn new(timeouts: &Arc<ConnTimeouts>, has_body: bool) -> Self {
        timeouts.begin(has_body);
        Self {
            timeouts: Arc::clone(timeouts),
            has_body,
            progress: Progress::current(),
        }
    }

    fn answered(&mut self) {
        self.timeouts.answered(std::mem::take(&mut self.has_body));
    }

    fn wait(&self) {
        if let Some(progress) = &self.progress {
            progress.wait(self.timeouts.flowing());
        }
    }

    fn sent(&self) {
        if let Some(progress) = &self.progress {
            progress.sent();
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.answered();
        self.timeouts.end();
    }
}

/// The size of a frame of HTTP/2. Within `body_timeout`'s default this makes a least rate
/// of 546 bytes per second for each answer.
const PIECE: usize = 16 << 10;
