//! Bytes of answers that count until they are written or dropped.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;

use super::Held;

impl Held {
    /// Counts a piece of an answer of which an upstream sends more if it is not the
    /// `last`, until its last slice is dropped.
    pub(crate) fn count_piece(self: &Arc<Self>, piece: Bytes, last: bool) -> Bytes {
        if last && piece.len() < LEAST {
            return piece;
        }
        let behind = if last { 0 } else { BEHIND };
        let counted = Counted {
            bytes: piece.len() + behind,
            piece,
            held: Arc::clone(self),
        };
        self.answers.fetch_add(counted.bytes, Relaxed);
        self.count();
        Bytes::from_owner(counted)
    }
}

/// Piece of an answer that counts until it is dropped, also while h2 keeps it for a
/// stream that has ended.
struct Counted {
    piece: Bytes,
    bytes: usize,
    held: Arc<Held>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.held.answers.fetch_sub(self.bytes, Relaxed);
        self.held.count();
    }
}

/// Bytes of a whole answer that are not counted: counting allocates.
const LEAST: usize = 4 << 10;

/// Bytes that hyper may hold behind a piece that waits: the next one, which is a read of
/// its connection.
const BEHIND: usize = 64 << 10;
