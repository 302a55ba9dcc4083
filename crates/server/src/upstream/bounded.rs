//! Transport to an upstream whose bytes are judged: informational answers and frames of
//! HTTP/2 are bounded.
//!
//! hyper reads any number of informational answers over HTTP/1.1. Over HTTP/2, h2 queues
//! each until the request's task passes over it, and answers each PING and SETTINGS. An
//! upstream that sends them for ever would keep both busy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use sekisho_certs::clock;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::informational::Informational;
use super::pool::Streams;
use super::transport::Transport;
use crate::tls::frames::Budget;
use crate::tls::frames::parser::{HEADERS, Parser, SETTINGS};

/// Transport whose bytes are judged.
pub(super) struct BoundedTransport {
    inner: Transport,
    bound: Bound,
}

/// Bound of bytes.
enum Bound {
    /// Reads the heads of HTTP/1.1.
    Http1(Arc<Informational>),
    Http2(Box<Frames>),
}

/// Bound of HTTP/2: charges the server's frames to a budget, and its HEADERS also to the
/// streams of the connection. Tells these of SETTINGS.
struct Frames {
    received: Parser,
    sent: Parser,
    budget: Budget,
    begun: Instant,
    streams: Arc<Streams>,
    /// The current frame is SETTINGS.
    in_settings: bool,
}

impl BoundedTransport {
    /// Watches a connection of HTTP/1.1.
    pub(super) fn http1(inner: Transport, watch: Arc<Informational>) -> Self {
        let bound = Bound::Http1(watch);
        Self { inner, bound }
    }

    /// Watches a connection of HTTP/2.
    pub(super) fn http2(inner: Transport, streams: Arc<Streams>) -> Self {
        let bound = Bound::Http2(Box::new(Frames {
            received: Parser::client(),
            // What a server receives is what we send.
            sent: Parser::server(),
            budget: Budget::of_upstream(),
            begun: clock::monotonic(),
            streams,
            in_settings: false,
        }));
        Self { inner, bound }
    }

    pub(super) fn into_inner(self) -> Transport {
        self.inner
    }
}

impl Bound {
    /// Notes received bytes. Returns what there is too much of, if anything.
    fn received(&mut self, bytes: &[u8]) -> Option<&'static str> {
        match self {
            Self::Http1(watch) => (!watch.received(bytes)).then_some(INFORMATIONAL),
            Self::Http2(frames) => frames.received(bytes),
        }
    }

    /// Notes sent bytes.
    fn sent(&mut self, bytes: &[u8]) {
        if let Self::Http2(frames) = self {
            let Frames { sent, budget, .. } = &mut **frames;
            sent.feed(bytes, |head| budget.sent(head));
        }
    }

    /// Tells the streams why their connection ends, if the server is to blame.
    fn blame(&self, error: &io::Error, flood: Option<&'static str>) {
        if let Self::Http2(frames) = self
            && error.kind() == io::ErrorKind::InvalidData
        {
            frames.streams.misused(flood.unwrap_or(TLS));
        }
    }
}

impl Frames {
    fn received(&mut self, bytes: &[u8]) -> Option<&'static str> {
        let Self {
            received,
            budget,
            begun,
            streams,
            in_settings,
            ..
        } = self;
        let (mut has_informational, mut has_settings) = (false, false);
        received.feed(bytes, |head| {
            has_settings |= *in_settings;
            *in_settings = head.kind == SETTINGS;
            has_informational |= head.kind == HEADERS && !streams.take_block();
            budget.received(head, || clock::monotonic() - *begun);
        });
        if *in_settings && received.rest() == 0 {
            (has_settings, *in_settings) = (true, false);
        }
        if has_settings {
            streams.settings_came();
        }
        match has_informational {
            true => Some(INFORMATIONAL),
            false => budget.is_spent().then_some(FRAMES),
        }
    }
}

impl AsyncRead for BoundedTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut this.inner).poll_read(cx, buf));
        let flood = this.bound.received(&buf.filled()[before..]);
        let judged = read.and_then(|()| match flood {
            None => Ok(()),
            Some(flood) => Err(io::Error::new(io::ErrorKind::InvalidData, flood)),
        });
        Poll::Ready(judged.inspect_err(|error| this.bound.blame(error, flood)))
    }
}

impl AsyncWrite for BoundedTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, buf))?;
        self.bound.sent(&buf[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, bufs))?;
        let mut left = written;
        for buf in bufs {
            let taken = buf.len().min(left);
            self.bound.sent(&buf[..taken]);
            left -= taken;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

const INFORMATIONAL: &str = "over 8 informational answers";
const FRAMES: &str = "more frames of HTTP/2 than its answers need";
/// Error of TLS while it is read, that of [`super::metered`] included.
const TLS: &str = "its records of TLS are wrong, or too many without data";
