//! Stream of HTTP/2: one send for all that a poll of its connection wrote.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::Stream;

/// Stream that hyper shares with the driver of its connection.
///
/// h2 flushes after each frame of data: without this, each answer would be a system call
/// of its own. Flushes do nothing here. The driver sends after each poll of the
/// connection, and a write sends where [`super::SEND_LIMIT`] is reached. Small frames share
/// a record of TLS. The lock is never contended, since one task uses it.
#[derive(Clone)]
pub(crate) struct Corked(Arc<Mutex<State>>);

struct State {
    stream: Stream,
    /// Frames of the record to come. Empty and without memory between polls, unless the
    /// socket is blocked.
    record: Vec<u8>,
    /// Error of the last send, which hyper gets at its next step.
    failed: Option<io::Error>,
}

impl Corked {
    pub(crate) fn new(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(State {
            stream,
            record: Vec::new(),
            failed: None,
        })))
    }

    /// Sends what was written, as far as the socket takes it. Returns false if that
    /// failed: the connection must then be polled, and ends.
    pub(crate) fn send(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.lock();
        if state.stream.patient {
            return true;
        }
        let sent = match state.poll_seal(cx) {
            Poll::Ready(Ok(())) => state.stream.poll_send(cx),
            unsealed => unsealed,
        };
        match sent {
            Poll::Ready(Err(error)) => {
                state.failed = Some(error);
                false
            }
            Poll::Ready(Ok(())) | Poll::Pending => true,
        }
    }

    /// Calls [`Stream::vacate`].
    pub(crate) fn vacate(&self) {
        self.lock().stream.vacate();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `step` unless the last send failed.
    fn step<T>(&self, step: impl FnOnce(&mut State) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let mut state = self.lock();
        match state.failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => step(&mut state),
        }
    }
}

impl State {
    /// Makes a record of the frames that wait for one.
    fn poll_seal(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sealed = 0;
        while sealed < self.record.len() {
            let written = self.stream.tls.writer().write(&self.record[sealed..])?;
            sealed += written;
            if written == 0 && self.stream.poll_send(cx)?.is_pending() {
                self.record.drain(..sealed);
                return Poll::Pending;
            }
        }
        self.record = Vec::new();
        Poll::Ready(Ok(()))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bufs.iter().map(|buf| buf.len()).sum();
        if length > SMALL {
            ready!(self.poll_seal(cx))?;
            return Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        }
        if self.record.len() + length > RECORD {
            ready!(self.poll_seal(cx))?;
        }
        if self.record.capacity() == 0 {
            self.record.reserve_exact(FIRST);
        }
        for buf in bufs {
            self.record.extend_from_slice(buf);
        }
        self.stream.patient &= length == 0;
        self.stream.note_sent(bufs, length);
        Poll::Ready(Ok(length))
    }
}

impl Read for Corked {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.step(|state| Pin::new(&mut state.stream).poll_read(cx, buf))
    }
}

impl Write for Corked {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.step(|state| state.poll_write(cx, &[IoSlice::new(buf)]))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.step(|state| state.poll_write(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.step(|state| {
            ready!(state.poll_seal(cx))?;
            Pin::new(&mut state.stream).poll_shutdown(cx)
        })
    }
}

/// Most bytes of a record, by RFC 8446, section 5.1.
const RECORD: usize = 16 << 10;
/// Bytes that a record has room for at first: a small answer.
const FIRST: usize = 2 << 10;
/// Bytes up to which a copy costs less than a record of their own.
const SMALL: usize = 4 << 10;
