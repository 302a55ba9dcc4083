//! Streams a file: reads it while it is sent.

use std::fs::File;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use rustix::buffer::spare_capacity;
use rustix::io::{pread, retry_on_intr};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::permits::{OpenPermit, PIECE};
use super::reads::FolderReads;

/// Stream of a part of an open file, in pieces of at most [`PIECE`] bytes. One
/// piece is in memory at a time. The first one is small: over HTTP/2, it waits
/// for a window that the client may never open.
///
/// A file that became shorter ends the stream with an error: the announced
/// length can't be kept, and the client must notice the truncation.
pub(crate) struct Stream {
    file: Arc<File>,
    offset: u64,
    left: u64,
    /// Bytes of the next piece, if the permit allows them.
    piece: usize,
    permit: Arc<OpenPermit>,
    reads: FolderReads,
    reading: Option<Reading>,
}

impl Stream {
    /// Streams `len` bytes from `offset` on.
    pub(crate) fn new(
        file: File,
        offset: u64,
        len: u64,
        reads: FolderReads,
        permit: OpenPermit,
    ) -> Self {
        Self {
            file: Arc::new(file),
            offset,
            left: len,
            piece: FIRST_PIECE,
            permit: Arc::new(permit),
            reads,
            reading: None,
        }
    }

    fn next_piece(&self) -> Reading {
        let (file, reads) = (Arc::clone(&self.file), self.reads.clone());
        let permit = Arc::clone(&self.permit);
        let piece = self.piece.min(permit.piece()) as u64;
        let (offset, len) = (self.offset, self.left.min(piece));
        Box::pin(async move {
            let busy = |_| io::Error::other("too many reads wait");
            let read_permit = timeout(PIECE_WAIT, reads.permit()).await?;
            let read_permit = read_permit.map_err(busy)?;
            let read = spawn_blocking(move || {
                let _read_permit = read_permit;
                read_piece(&file, offset, len, permit)
            });
            timeout(PIECE_WAIT, read).await??
        })
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = io::Error;

    /// Returns the next piece; None at the end, and after an error.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
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
                self.piece = PIECE;
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Poll::Ready(Err(error)) => {
                self.left = 0;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

type Reading = Pin<Box<dyn Future<Output = io::Result<Bytes>> + Send>>;

fn read_piece(file: &File, offset: u64, len: u64, permit: Arc<OpenPermit>) -> io::Result<Bytes> {
    let len = usize::try_from(len).expect("a piece is small");
    // Room that is not filled with zeros: to fill it takes the time of a copy.
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let at = offset + bytes.len() as u64;
        if retry_on_intr(|| pread(file, spare_capacity(&mut bytes), at))? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    // The allocator may have given room for more.
    bytes.truncate(len);
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

/// How long a download waits for a read permit, and then for the disk.
const PIECE_WAIT: Duration = Duration::from_secs(10);
/// Bytes of the first piece: one frame of HTTP/2.
const FIRST_PIECE: usize = 16 << 10;
