//! Stream of HTTP/2: one send for all that a poll of its connection wrote.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::Stream;

/// Stream that hyper shares with the driver of its connection.
///
/// h2 flushes after each frame of data: without this, each answer would be a system call
/// of its own. Flushes do nothing here. The driver sends after each poll of the
/// connection, and a write sends where [`super::SEND_LIMIT`] is reached. The lock is
/// never contended, since one task uses it.
#[derive(Clone)]
pub(crate) struct Corked(Arc<Mutex<State>>);

struct State {
    stream: Stream,
    /// Error of the last send, which hyper gets at its next step.
    failed: Option<io::Error>,
}

impl Corked {
    pub(crate) fn new(stream: Stream) -> Self {
        let failed = None;
        Self(Arc::new(Mutex::new(State { stream, failed })))
    }

    /// Sends what was written, as far as the socket takes it. Returns false if that
    /// failed: the connection must then be polled, and ends.
    pub(crate) fn send(&self, cx: &mut Context<'_>) -> bool {
        let mut state = self.lock();
        if state.stream.patient {
            return true;
        }
        match state.stream.poll_send(cx) {
            Poll::Ready(Err(error)) => {
                state.failed = Some(error);
                false
            }
            Poll::Ready(Ok(())) | Poll::Pending => true,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `step` with the stream, unless the last send failed.
    fn step<T>(
        &self,
        step: impl FnOnce(Pin<&mut Stream>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut state = self.lock();
        match state.failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => step(Pin::new(&mut state.stream)),
        }
    }
}

impl Read for Corked {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.step(|stream| stream.poll_read(cx, buf))
    }
}

impl Write for Corked {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.step(|stream| stream.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.step(|stream| stream.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.step(|stream| stream.poll_shutdown(cx))
    }
}
