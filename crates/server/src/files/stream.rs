//! Streams a file: reads it while it is sent.

use std::fmt;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::turns::Share;

/// Stream of a part of an open file, in pieces of at most [`PIECE`] bytes. One
/// piece is in memory at a time.
///
/// A file that became shorter ends the stream with an error: the announced
/// length can't be kept, and the client must notice the truncation.
pub(crate) struct Stream {
    file: Arc<File>,
    offset: u64,
    left: u64,
    permit: Arc<OpenPermit>,
    share: Share,
    reading: Option<Reading>,
}

impl Stream {
    /// Streams `len` bytes from `offset` on.
    pub(crate) fn new(file: File, offset: u64, len: u64, share: Share, permit: OpenPermit) -> Self {
        Self {
            file: Arc::new(file),
            offset,
            left: len,
            permit: Arc::new(permit),
            share,
            reading: None,
        }
    }

    /// Returns the bytes that remain.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the next piece; None at the end, and after an error.
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
        let (file, share) = (Arc::clone(&self.file), self.share.clone());
        let (offset, len) = (self.offset, self.left.min(PIECE));
        let permit = Arc::clone(&self.permit);
        Box::pin(async move {
            let turn = timeout(PIECE_WAIT, share.turn()).await?;
            let read = spawn_blocking(move || {
                let piece = read_piece(&file, offset, len, permit);
                drop(turn);
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

fn read_piece(file: &File, offset: u64, len: u64, permit: Arc<OpenPermit>) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(len).expect("a piece is small")];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(Bytes::from_owner(Piece {
        bytes,
        _permit: permit,
    }))
}

/// Bytes that hold the permit of their file until they are sent, also while
/// they wait in h2 after their stream has ended.
struct Piece {
    bytes: Vec<u8>,
    _permit: Arc<OpenPermit>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Limit on files open for answers: of one connection, or of the server.
///
/// Each file holds a descriptor and up to 64 KiB of content. The semaphore is
/// allocated with the first file.
#[derive(Debug, Default)]
pub struct OpenFiles(OnceLock<Arc<Semaphore>>);

impl OpenFiles {
    pub(super) fn of_server() -> Self {
        Self(Arc::new(Semaphore::new(MAX_OPEN_FILES)).into())
    }

    fn permits(&self) -> Arc<Semaphore> {
        let permits = || Arc::new(Semaphore::new(OPEN_OF_CONNECTION));
        Arc::clone(self.0.get_or_init(permits))
    }

    /// Takes a permit of this connection and one of the server; None if either
    /// has none free.
    pub(super) fn try_permit(&self, server: &Self) -> Option<OpenPermit> {
        Some(OpenPermit {
            _own: self.permits().try_acquire_owned().ok()?,
            _all: server.permits().try_acquire_owned().ok()?,
        })
    }

    /// Waits for both permits; None if one does not come free in time.
    pub(super) async fn permit(&self, server: &Self) -> Option<OpenPermit> {
        let own = timeout(OWN_WAIT, self.permits().acquire_owned()).await;
        let own = own.ok()?.ok()?;
        let all = timeout(PIECE_WAIT, server.permits().acquire_owned()).await;
        Some(OpenPermit {
            _own: own,
            _all: all.ok()?.ok()?,
        })
    }
}

/// Permits to keep a file open for an answer.
#[derive(Debug)]
pub(crate) struct OpenPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Bytes of a piece: four TLS records. Encrypting it takes far longer than the
/// hop to the reading thread, and ten thousand downloads fit in memory.
const PIECE: u64 = 64 << 10;
/// How long a download waits for a read permit, and then for the disk.
const PIECE_WAIT: Duration = Duration::from_secs(10);
/// Open files of one connection, which take up to 1 MiB. Further answers wait
/// with their file closed.
const OPEN_OF_CONNECTION: usize = 16;
/// Open files of the server, which take up to 512 MiB.
pub const MAX_OPEN_FILES: usize = 8192;
/// How long an answer waits for other answers on its connection: the client
/// chose to request them all at once.
const OWN_WAIT: Duration = Duration::from_secs(600);
