//! Body of a request on its way to an upstream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;

use super::exchange::{ANSWERED, CLOSED, Exchange, FAILED, HELD, SENT, TOO_LARGE};
use super::fields::{self, OurFields};
use super::whole::Whole;
use crate::limits::rest;
use crate::limits::timeouts::{ConnTimeouts, Flow};

/// Body of a request; most have none.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Upload(Source);

#[derive(Debug, Default)]
enum Source {
    #[default]
    Nothing,
    /// Frames are passed on as the upstream takes them, and nothing is kept.
    Passing(Box<Passing>),
    /// A body that was collected first.
    Whole(Box<Whole>),
}

#[derive(Debug)]
struct Passing {
    /// None once it is too long, and discarded.
    body: Option<Incoming>,
    /// Bytes that may still come.
    left: u64,
    exchange: Arc<Exchange>,
    timeouts: Arc<ConnTimeouts>,
    /// The request came over HTTP/2.
    multiplexed: bool,
    ours: OurFields,
}

impl Upload {
    /// Passes `body` on, up to `limit` bytes. Must be called in the task of the
    /// request.
    pub(in crate::upstream) fn new(
        body: Incoming,
        limit: u64,
        ours: OurFields,
        exchange: &Arc<Exchange>,
        timeouts: &Arc<ConnTimeouts>,
    ) -> Self {
        Self(Source::Passing(Box::new(Passing {
            body: Some(body),
            left: limit,
            exchange: Arc::clone(exchange),
            timeouts: Arc::clone(timeouts),
            multiplexed: Flow::of_stream().is_some(),
            ours,
        })))
    }

    /// Passes on a body that was collected.
    pub(super) fn whole(whole: Whole) -> Self {
        Self(Source::Whole(Box::new(whole)))
    }
}

impl Passing {
    /// Notes that the upstream has all that came. Once the answer has begun, both sides
    /// may be silent for a while, as in gRPC.
    fn wait(&self) {
        match self.exchange.is(ANSWERED | CLOSED) {
            true => self.exchange.flow.leave_body(),
            false => self.exchange.flow.want_body(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.exchange.register(cx.waker());
        if self.exchange.is(CLOSED) {
            return Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())));
        }
        if self.exchange.is(HELD) {
            return Poll::Pending;
        }
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        match Pin::new(body).poll_frame(cx) {
            Poll::Pending => {
                self.wait();
                Poll::Pending
            }
            Poll::Ready(frame) => {
                self.exchange.flow.pass_body();
                Poll::Ready(frame.map(|frame| self.take(frame)))
            }
        }
    }

    /// Discards the rest, over HTTP/2: until an answer has begun, that is 413.
    fn discard(&mut self) {
        if let Some(body) = self.body.take()
            && self.multiplexed
            && !self.exchange.is(ANSWERED)
        {
            rest::discard_behind(body, &self.timeouts);
        }
    }

    /// Returns whether the body has ended.
    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_some_and(Incoming::is_end_stream)
    }

    fn take(&mut self, frame: hyper::Result<Frame<Bytes>>) -> io::Result<Frame<Bytes>> {
        let mut frame = frame.map_err(|error| {
            self.exchange.set(FAILED);
            io::Error::other(error)
        })?;
        if let Some(data) = frame.data_ref() {
            self.timeouts.taken(data.len());
            match self.left.checked_sub(data.len() as u64) {
                Some(left) => self.left = left,
                None => {
                    self.exchange.set(TOO_LARGE);
                    self.discard();
                    return Err(io::ErrorKind::FileTooLarge.into());
                }
            }
        }
        if let Some(trailers) = frame.trailers_mut() {
            let ours = &self.ours;
            fields::clean_trailers(trailers, |name| ours.is_ours(name));
        }
        Ok(frame)
    }
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let passing = match &mut self.0 {
            Source::Nothing => return Poll::Ready(None),
            Source::Passing(passing) => passing,
            Source::Whole(whole) => {
                let bytes = std::mem::take(&mut whole.bytes);
                let frame = (!bytes.is_empty()).then(|| Ok(Frame::data(bytes)));
                return Poll::Ready(frame);
            }
        };
        let frame = passing.poll(cx);
        let ended = match &frame {
            Poll::Ready(None) => true,
            Poll::Ready(Some(Ok(frame))) => frame.is_trailers() || passing.is_end_stream(),
            Poll::Ready(Some(Err(_))) | Poll::Pending => false,
        };
        if ended {
            passing.exchange.set(SENT);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Source::Nothing => true,
            Source::Passing(passing) => passing.is_end_stream(),
            Source::Whole(whole) => whole.bytes.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Source::Nothing => SizeHint::with_exact(0),
            Source::Passing(passing) => {
                let body = passing.body.as_ref();
                body.map_or_else(SizeHint::default, Incoming::size_hint)
            }
            Source::Whole(whole) => SizeHint::with_exact(whole.bytes.len() as u64),
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.exchange.flow.leave_body();
    }
}
