//! A program that runs: what it reads and writes, and its end.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _, join};
use thiserror::Error;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::complaints::Complaints;
use super::group::Group;

/// Program that runs. Dropping it before the end of its output ends the program. How long it
/// may be silent is its reader's to judge, as for any upstream.
#[derive(Debug)]
pub(crate) struct Running {
    /// Standard input, for the body of the request; dropping it ends the body.
    pub(crate) input: Option<Sender>,
    output: Option<Receiver>,
    buffer: BytesMut,
    /// Bytes of output that may still come.
    left: usize,
    ends: Option<oneshot::Sender<()>>,
    /// Receives a failure at any time, and that there was none after the end of the output.
    verdict: oneshot::Receiver<Result<(), Failure>>,
}

/// Watch over a program: it reads its standard error, and ends it.
#[derive(Debug)]
pub(super) struct Watch {
    group: Group,
    errors: Receiver,
    complaints: Complaints,
    total: Duration,
    /// Receives once the output was read to its end; fails if it was dropped before.
    output: oneshot::Receiver<()>,
    verdict: oneshot::Sender<Result<(), Failure>>,
}

/// Reasons why a program's output is not complete.
#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// The program ran as long as it may.
    #[error("the program ran longer than it may")]
    Total,
    /// More than 1 GiB came on standard output.
    #[error("the program wrote more than 1 GiB")]
    Output,
    /// More than 1 MiB came on standard error.
    #[error("the program wrote more than 1 MiB to its standard error")]
    Complaint,
    /// A signal ended the program, such as that of the kernel for want of memory.
    #[error("signal {0} ended the program")]
    Signal(i32),
    /// The pipe can't be read.
    #[error("the program's output can't be read: {0}")]
    Read(#[from] io::Error),
    /// The server ends.
    #[error("the server ends")]
    Unwatched,
}

impl Running {
    /// Makes a program of its pipes, and the watch over it, which must run.
    pub(super) fn new(
        group: Group,
        (input, output, errors): (Sender, Receiver, Receiver),
        complaints: Complaints,
        total: Duration,
    ) -> (Self, Watch) {
        let (ends, ended) = oneshot::channel();
        let (tells, verdict) = oneshot::channel();
        let running = Self {
            input: Some(input),
            output: Some(output),
            buffer: BytesMut::new(),
            left: MOST,
            ends: Some(ends),
            verdict,
        };
        let watch = Watch {
            group,
            errors,
            complaints,
            total,
            output: ended,
            verdict: tells,
        };
        (running, watch)
    }

    /// Returns the next piece of output; none at its end. The output ends with the last process
    /// that holds it, also if that is not the program. Must not be polled after the end or a
    /// failure. Cancel-safe.
    ///
    /// # Errors
    /// [`Failure`]. Then the output is not complete.
    pub(crate) fn poll_output(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Failure>> {
        if let Some(pipe) = &mut self.output {
            self.buffer.reserve(PIECE);
            match pin!(pipe.read_buf(&mut self.buffer)).poll(cx)? {
                Poll::Pending => {}
                Poll::Ready(0) => {
                    self.output = None;
                    self.ends.take().map(|ends| ends.send(()));
                }
                Poll::Ready(read) => {
                    self.left = self.left.checked_sub(read).ok_or(Failure::Output)?;
                    return Poll::Ready(Ok(Some(self.buffer.split().freeze())));
                }
            }
        }
        let verdict = ready!(Pin::new(&mut self.verdict).poll(cx));
        Poll::Ready(verdict.unwrap_or(Err(Failure::Unwatched)).map(|()| None))
    }
}

impl Watch {
    /// Stays with a program to its end, however long its request takes:
    ///
    /// 1. The program runs until its output has ended or is dropped, until its time is over, or
    ///    its standard error is too long.
    /// 2. Once its output has ended, it has [`GRACE`]. How it ends within [`ENDS`] says whether
    ///    the output is complete.
    /// 3. Else SIGTERM, and [`TERMINATES`] for what it has left to do.
    /// 4. SIGKILL for its group, as soon as the program and its standard error have ended.
    pub(super) async fn run(self) {
        let mut group = self.group;
        let mut reads = pin!(read(self.errors, self.complaints).fuse());
        let ended = tokio::select! {
            true = &mut reads => Err(Some(Failure::Complaint)),
            ended = self.output => ended.map_err(|_| None),
            () = sleep(self.total) => Err(Some(Failure::Total)),
        };
        let has_ended = match ended {
            Ok(()) => {
                let verdict = tokio::select! {
                    true = &mut reads => Err(Failure::Complaint),
                    exit = timeout(ENDS, group.exit()) => match exit {
                        Ok(Some(signal)) => Err(Failure::Signal(signal)),
                        Ok(None) | Err(_) => Ok(()),
                    },
                };
                let _ = self.verdict.send(verdict);
                end(&mut group, reads.as_mut(), GRACE - ENDS).await
            }
            Err(failure) => {
                // Told before the output ends, which would else look complete.
                failure.map(|failure| self.verdict.send(Err(failure)));
                false
            }
        };
        if !has_ended {
            group.terminate();
            end(&mut group, reads, TERMINATES).await;
        }
        group.kill();
        group.exit().await;
    }
}

/// Reads standard error to its end. Returns whether it stopped before, since it is too long.
async fn read(mut errors: Receiver, mut complaints: Complaints) -> bool {
    let mut buffer = vec![0; BUFFER];
    while let Ok(read @ 1..) = errors.read(&mut buffer).await {
        if !complaints.add(&buffer[..read]) {
            return true;
        }
    }
    false
}

/// Waits for the end of a program and of its standard error. Returns false if the time is over
/// before.
async fn end(
    group: &mut Group,
    reads: Pin<&mut Fuse<impl Future<Output = bool>>>,
    limit: Duration,
) -> bool {
    let reads = async {
        if !reads.is_terminated() {
            reads.await;
        }
    };
    timeout(limit, join(group.exit(), reads)).await.is_ok()
}

/// Bytes of a piece of output.
const PIECE: usize = 16 << 10;
/// Bytes that a program may write.
const MOST: usize = 1 << 30;
/// Bytes of standard error that are read at once.
const BUFFER: usize = 4 << 10;
/// Time in which the end of a program is seen after that of its output.
const ENDS: Duration = Duration::from_millis(500);
/// Time for what is left of a program after the end of its output.
const GRACE: Duration = Duration::from_secs(2);
/// Time between SIGTERM and SIGKILL.
const TERMINATES: Duration = Duration::from_secs(2);
