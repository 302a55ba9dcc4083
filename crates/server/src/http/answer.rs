//! Response body that tracks the progress and the end of its request.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use crate::limits::in_flight::RequestPermit;
use crate::limits::timeouts::{ConnTimeouts, Flow};
use crate::site::body::Body;

/// Body of a site's response; dropping it ends the request.
pub(crate) struct Answer {
    body: Body,
    /// The part of `body`'s last frame that was not handed out yet.
    rest: Bytes,
    guard: RequestGuard,
    /// Permit of the request, if its rule bounds those in flight.
    _in_flight: Option<Arc<RequestPermit>>,
}

impl Answer {
    pub(super) fn new(
        body: Body,
        mut guard: RequestGuard,
        in_flight: Option<Arc<RequestPermit>>,
    ) -> Self {
        guard.answered();
        if !http_body::Body::is_end_stream(&body) {
            guard.offer();
        }
        Self {
            body,
            rest: Bytes::new(),
            guard,
            _in_flight: in_flight,
        }
    }

    /// Returns the next piece. Over HTTP/2 it has at most [`PIECE`] bytes,
    /// which the client must take within the body limit: more would wait in h2
    /// behind a closed window.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.rest.is_empty() {
            let frame = match ready!(http_body::Body::poll_frame(Pin::new(&mut self.body), cx)) {
                Some(Ok(frame)) if self.guard.flow.is_some() => frame,
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
        this.guard.took();
        let piece = this.poll_piece(cx);
        match piece {
            // The last piece waits as well: hyper keeps it until there is room.
            Poll::Ready(Some(Ok(_))) => this.guard.offer(),
            Poll::Ready(Some(Err(_))) => this.guard.timeouts.cut_off(),
            Poll::Ready(None) | Poll::Pending => {}
        }
        piece
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // hyper asks before the first piece, when `rest` is empty.
        self.body.size_hint()
    }
}

/// A request in flight, from its head to the end of its answer.
pub(super) struct RequestGuard {
    timeouts: Arc<ConnTimeouts>,
    /// Flow of the request's body until the request is answered; none without a body.
    body: Option<Arc<Flow>>,
    /// Set for HTTP/2 only: over HTTP/1.1, data that the client does not take
    /// blocks the socket.
    flow: Option<Arc<Flow>>,
}

impl RequestGuard {
    pub(super) fn new(timeouts: &Arc<ConnTimeouts>, has_body: bool) -> Self {
        timeouts.begin();
        let body = has_body.then(|| timeouts.flow());
        if let Some(flow) = &body {
            flow.want_body();
        }
        Self {
            timeouts: Arc::clone(timeouts),
            body,
            flow: Flow::of_stream(),
        }
    }

    /// Lets the client take its time with the rest of the request's body.
    fn answered(&mut self) {
        if let Some(flow) = self.body.take() {
            flow.leave_body();
        }
    }

    fn offer(&self) {
        if let Some(flow) = &self.flow {
            flow.offer(self.timeouts.flowing());
        }
    }

    fn took(&self) {
        if let Some(flow) = &self.flow {
            flow.took();
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.answered();
        self.timeouts.end();
    }
}

/// Bytes of an HTTP/2 frame. With the default `body_timeout` of 30 s, each
/// answer must be taken at 546 bytes per second or more.
const PIECE: usize = 16 << 10;
