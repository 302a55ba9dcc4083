//! A program that runs: what it reads and what it writes.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::io::AsyncWrite;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep, sleep};

use super::Limits;

/// Program that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) input: Input,
    pub(crate) output: Output,
}

/// Standard input of a program, for the body of the request. Shutting it down or dropping it
/// ends the body. A program that does not read its body to the end breaks the pipe, which is
/// no failure of the answer.
#[derive(Debug)]
pub(crate) struct Input {
    pipe: Option<Sender>,
    turn: Arc<Turn>,
}

/// Standard output of a program. Dropping it before its end ends the program.
#[derive(Debug)]
pub(crate) struct Output {
    pipe: Option<Receiver>,
    turn: Arc<Turn>,
    limits: Limits,
    has_head: bool,
    /// When the last piece came.
    last: Instant,
    sleep: Pin<Box<Sleep>>,
    ends: Option<oneshot::Sender<()>>,
    verdict: Option<oneshot::Receiver<Result<(), Failure>>>,
}

/// Reasons why a program's output is not complete.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// No head of an answer in time.
    #[error("the program sent no head of an answer in time")]
    FirstByte,
    /// No byte in time.
    #[error("the program sent nothing for too long")]
    Idle,
    /// The program ran as long as it may.
    #[error("the program ran longer than it may")]
    Total,
    /// More than 1 MiB came on standard error.
    #[error("the program wrote more than 1 MiB to its standard error")]
    Complaint,
    /// A signal ended the program, such as that of the kernel for want of memory.
    #[error("signal {0} ended the program")]
    Signal(i32),
    /// The pipe can't be read.
    #[error("the program's output can't be read: {0}")]
    Read(io::Error),
    /// The server ends.
    #[error("the server ends")]
    Unwatched,
}

/// Since when it is the program's turn to read or write; none while it waits for the client.
#[derive(Debug)]
struct Turn(Mutex<Option<Instant>>);

impl Turn {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Input {
    pub(super) fn new(pipe: Sender) -> Self {
        Self {
            pipe: Some(pipe),
            turn: Arc::new(Turn(Mutex::new(None))),
        }
    }
}

impl AsyncWrite for Input {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let Some(pipe) = &mut this.pipe else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let written = Pin::new(pipe).poll_write(cx, bytes);
        let mut since = this.turn.lock();
        match &written {
            Poll::Pending => _ = since.get_or_insert_with(Instant::now),
            Poll::Ready(Ok(_)) => *since = None,
            Poll::Ready(Err(_)) => {
                *since = Some(Instant::now());
                this.pipe = None;
            }
        }
        written
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().close();
        Poll::Ready(Ok(()))
    }
}

impl Input {
    fn close(&mut self) {
        if self.pipe.take().is_some() {
            *self.turn.lock() = Some(Instant::now());
        }
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.close();
    }
}

impl Output {
    pub(super) fn new(
        pipe: Receiver,
        input: &Input,
        limits: Limits,
        ends: oneshot::Sender<()>,
        verdict: oneshot::Receiver<Result<(), Failure>>,
    ) -> Self {
        Self {
            pipe: Some(pipe),
            turn: Arc::clone(&input.turn),
            limits,
            has_head: false,
            last: Instant::now(),
            sleep: Box::pin(sleep(Duration::ZERO)),
            ends: Some(ends),
            verdict: Some(verdict),
        }
    }

    /// Notes that the head of the answer was read: the limit on bodies holds from now on.
    pub(crate) fn note_head(&mut self) {
        self.has_head = true;
    }

    /// Returns the next piece, of [`PIECE`] bytes at most; none at the end. The caller must
    /// poll the input meanwhile. Cancel-safe.
    ///
    /// # Errors
    /// [`Failure`]. Then the output is not complete, and must be dropped.
    pub(crate) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        while let Some(pipe) = &self.pipe {
            match pipe.poll_read_ready(cx) {
                Poll::Pending => return self.poll_failure(cx).map(Err),
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Failure::Read(error))),
            }
            let mut piece = BytesMut::with_capacity(PIECE);
            match pipe.try_read_buf(&mut piece) {
                Ok(0) => self.note_end(),
                Ok(_) => {
                    self.last = Instant::now();
                    return Poll::Ready(Ok(Some(piece.freeze())));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(Failure::Read(error))),
            }
        }
        match self.poll_verdict(cx) {
            Poll::Ready(Some(failure)) => Poll::Ready(Err(failure)),
            Poll::Ready(None) => Poll::Ready(Ok(None)),
            // A program may close its output and go on.
            Poll::Pending => self.sleep.as_mut().poll(cx).map(|()| Ok(None)),
        }
    }

    /// As [`Self::poll_piece`].
    #[cfg(test)]
    pub(crate) async fn piece(&mut self) -> Result<Option<Bytes>, Failure> {
        std::future::poll_fn(|cx| self.poll_piece(cx)).await
    }

    fn note_end(&mut self) {
        self.pipe = None;
        self.sleep.as_mut().reset(Instant::now() + ENDS);
        if let Some(ends) = self.ends.take() {
            let _ = ends.send(());
        }
    }

    /// Returns why the program is or was ended; none if it has ended by itself.
    fn poll_verdict(&mut self, cx: &mut Context<'_>) -> Poll<Option<Failure>> {
        let Some(verdict) = &mut self.verdict else {
            return Poll::Ready(None);
        };
        let verdict = ready!(Pin::new(verdict).poll(cx));
        self.verdict = None;
        Poll::Ready(verdict.unwrap_or(Err(Failure::Unwatched)).err())
    }

    /// Waits, without a byte to read, for a failure.
    fn poll_failure(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        if let Poll::Ready(Some(failure)) = self.poll_verdict(cx) {
            return Poll::Ready(failure);
        }
        let (limit, failure) = match self.has_head {
            true => (self.limits.idle, Failure::Idle),
            false => (self.limits.first_byte, Failure::FirstByte),
        };
        loop {
            let now = Instant::now();
            // While it is the client's turn, looked at again after one limit.
            let since = self.turn.lock().map(|since| since.max(self.last));
            let due = since.unwrap_or(now) + limit;
            if due <= now && since.is_some() {
                return Poll::Ready(failure);
            }
            self.sleep.as_mut().reset(due);
            ready!(self.sleep.as_mut().poll(cx));
        }
    }
}

/// Bytes of a piece.
const PIECE: usize = 16 << 10;
/// Time in which the end of a program is seen after that of its output.
const ENDS: Duration = Duration::from_millis(500);
