//! Counts the field blocks that an HTTP/2 upstream sends.
//!
//! h2 queues each informational answer until the request's task passes over it, and
//! hyper shows none. An upstream that sends them for ever would keep both busy.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pool::Streams;
use crate::frames::parser::{HEADERS, Parser};

/// Transport whose HEADERS frames are charged to the streams of its connection.
pub(super) struct Counted<T> {
    inner: T,
    frames: Parser,
    streams: Arc<Streams>,
}

impl<T> Counted<T> {
    pub(super) fn new(inner: T, streams: Arc<Streams>) -> Self {
        Self {
            inner,
            frames: Parser::client(),
            streams,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Counted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let Self {
            frames, streams, ..
        } = &mut *self;
        let mut is_flood = false;
        frames.feed(&buf.filled()[before..], |head| {
            is_flood |= head.kind == HEADERS && !streams.take_block();
        });
        if is_flood {
            let flood = "over 8 informational answers";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, flood)));
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Counted<T> {
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
