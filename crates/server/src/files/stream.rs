//! A file's bytes, read while they are sent.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A part of an open file, in pieces of at most [`PIECE`] bytes, one of them
/// in memory at a time.
///
/// A file that has become shorter ends the stream with an error: the promised
/// length can't be kept, and the client must not take the rest for the whole.
pub(crate) struct Stream {
    file: Arc<File>,
    offset: u64,
    left: u64,
    reads: Arc<Semaphore>,
    reading: Option<Reading>,
}

impl Stream {
    /// `len` bytes from `offset` on.
    pub(crate) fn new(file: File, offset: u64, len: u64, reads: &Arc<Semaphore>) -> Self {
        Self {
            file: Arc::new(file),
            offset,
            left: len,
            reads: Arc::clone(reads),
            reading: None,
        }
    }

    /// Bytes that are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; none at the end, and behind an error.
    pub(crate) fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.next_piece());
        match reading.as_mut().poll(cx) {
            Poll::Pending => {
                self.reading = Some(reading);
                Poll::Pending
            }
            Poll::Ready(Ok(piece)) => {
                self.offset += piece.len() as u64;
                self.left -= piece.len() as u64;
                Poll::Ready(Some(Ok(piece)))
            }
            Poll::Ready(Err(error)) => {
                self.left = 0;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn next_piece(&self) -> Reading {
        let (file, reads) = (Arc::clone(&self.file), Arc::clone(&self.reads));
        let (offset, len) = (self.offset, self.left.min(PIECE));
        Box::pin(async move {
            let permit = timeout(PIECE_WAIT, reads.acquire_owned()).await?;
            let read = spawn_blocking(move || {
                let piece = read_piece(&file, offset, len);
                drop(permit);
                piece
            });
            timeout(PIECE_WAIT, read).await??
        })
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream")
            .field("offset", &self.offset)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

type Reading = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

fn read_piece(file: &File, offset: u64, len: u64) -> io::Result<Bytes> {
    let mut piece = vec![0; usize::try_from(len).expect("a piece is small")];
    file.read_exact_at(&mut piece, offset)?;
    Ok(piece.into())
}

/// Four TLS records: large enough that the hop to the reading thread is lost
/// in the time to encrypt it, small enough for ten thousand downloads at once.
const PIECE: u64 = 64 << 10;
/// How long a download waits for its turn to read, and then for the disk.
const PIECE_WAIT: Duration = Duration::from_secs(10);
