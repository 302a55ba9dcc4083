//! A file's bytes, read while they are sent.

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

/// A part of an open file, in pieces of at most [`PIECE`] bytes, one of them
/// in memory at a time.
///
/// A file that has become shorter ends the stream with an error: the promised
/// length can't be kept, and the client must not take the rest for the whole.
pub(crate) struct Stream {
    file: Arc<File>,
    offset: u64,
    left: u64,
    place: Arc<Place>,
    share: Share,
    reading: Option<Reading>,
}

impl Stream {
    /// `len` bytes from `offset` on.
    pub(crate) fn new(file: File, offset: u64, len: u64, share: Share, place: Place) -> Self {
        Self {
            file: Arc::new(file),
            offset,
            left: len,
            place: Arc::new(place),
            share,
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
        let (file, share) = (Arc::clone(&self.file), self.share.clone());
        let (offset, len) = (self.offset, self.left.min(PIECE));
        let place = Arc::clone(&self.place);
        Box::pin(async move {
            let turn = timeout(PIECE_WAIT, share.turn()).await?;
            let read = spawn_blocking(move || {
                let piece = read_piece(&file, offset, len, place);
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

fn read_piece(file: &File, offset: u64, len: u64, place: Arc<Place>) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(len).expect("a piece is small")];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(Bytes::from_owner(Piece {
        bytes,
        _place: place,
    }))
}

/// Bytes that keep the place of their file until the client took them: also
/// those that wait in h2 when their stream is long forgotten.
struct Piece {
    bytes: Vec<u8>,
    _place: Arc<Place>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Files that may be open for answers at once: those of one connection, or of
/// the server.
///
/// Each holds a descriptor and up to 64 KiB of the file.
/// Takes no memory before the first one.
#[derive(Debug, Default)]
pub struct OpenFiles(OnceLock<Arc<Semaphore>>);

impl OpenFiles {
    pub(super) fn of_server() -> Self {
        Self(Arc::new(Semaphore::new(MAX_OPEN_FILES)).into())
    }

    fn places(&self) -> Arc<Semaphore> {
        let places = || Arc::new(Semaphore::new(OPEN_OF_CONNECTION));
        Arc::clone(self.0.get_or_init(places))
    }

    /// A place among those of this connection and of the server.
    pub(super) fn try_place(&self, server: &Self) -> Option<Place> {
        Some(Place {
            _own: self.places().try_acquire_owned().ok()?,
            _all: server.places().try_acquire_owned().ok()?,
        })
    }

    /// Waits for a place; none if none comes free in time.
    pub(super) async fn place(&self, server: &Self) -> Option<Place> {
        let own = timeout(OWN_WAIT, self.places().acquire_owned()).await;
        let own = own.ok()?.ok()?;
        let all = timeout(PIECE_WAIT, server.places().acquire_owned()).await;
        Some(Place {
            _own: own,
            _all: all.ok()?.ok()?,
        })
    }
}

/// The right to have a file open for an answer.
#[derive(Debug)]
pub(crate) struct Place {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

/// Four TLS records: large enough that the hop to the reading thread is lost
/// in the time to encrypt it, small enough for ten thousand downloads at once.
const PIECE: u64 = 64 << 10;
/// How long a download waits for its turn to read, and then for the disk.
const PIECE_WAIT: Duration = Duration::from_secs(10);
/// Files that the answers on one connection have open at once, and so 1 MiB of
/// memory. Further ones wait, closed.
const OPEN_OF_CONNECTION: usize = 16;
/// Files that answers have open at once in all, and so 512 MiB of memory.
pub const MAX_OPEN_FILES: usize = 8192;
/// How long an answer waits for other answers on its own connection. The
/// client chose to ask for them all at once.
const OWN_WAIT: Duration = Duration::from_secs(600);
