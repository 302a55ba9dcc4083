//! Transport to an upstream whose received bytes are judged: informational answers
//! are bounded.
//!
//! hyper reads any number of them over HTTP/1.1. Over HTTP/2, h2 queues each until the
//! request's task passes over it. An upstream that sends them for ever would keep both
//! busy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pool::Streams;
use super::transport::Transport;
use super::watch::Watch;
use crate::frames::parser::{HEADERS, Parser, SETTINGS};

/// Transport whose received bytes are judged.
pub(super) struct Watched {
    inner: Transport,
    judge: Judge,
}

/// Judge of received bytes.
enum Judge {
    /// Reads the heads of HTTP/1.1.
    One(Arc<Watch>),
    /// Charges the HEADERS frames of HTTP/2 to the streams of the connection, and tells
    /// them of SETTINGS.
    Two {
        frames: Parser,
        streams: Arc<Streams>,
        /// The current frame is SETTINGS.
        in_settings: bool,
    },
}

impl Watched {
    /// Watches a connection of HTTP/1.1.
    pub(super) fn one(inner: Transport, watch: Arc<Watch>) -> Self {
        let judge = Judge::One(watch);
        Self { inner, judge }
    }

    /// Watches a connection of HTTP/2.
    pub(super) fn two(inner: Transport, streams: Arc<Streams>) -> Self {
        let judge = Judge::Two {
            frames: Parser::client(),
            streams,
            in_settings: false,
        };
        Self { inner, judge }
    }

    pub(super) fn into_inner(self) -> Transport {
        self.inner
    }
}

impl Judge {
    /// Notes received bytes. Returns false if they hold too many informational answers.
    fn received(&mut self, bytes: &[u8]) -> bool {
        match self {
            Self::One(watch) => watch.received(bytes),
            Self::Two {
                frames,
                streams,
                in_settings,
            } => {
                let (mut is_flood, mut has_settings) = (false, false);
                frames.feed(bytes, |head| {
                    has_settings |= *in_settings;
                    *in_settings = head.kind == SETTINGS;
                    is_flood |= head.kind == HEADERS && !streams.take_block();
                });
                if *in_settings && frames.rest() == 0 {
                    (has_settings, *in_settings) = (true, false);
                }
                if has_settings {
                    streams.settings_came();
                }
                !is_flood
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if self.judge.received(&buf.filled()[before..]) {
            return Poll::Ready(Ok(()));
        }
        let flood = "over 8 informational answers";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, flood)))
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
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
