//! Bytes of answers and tunnels that count until they are written or dropped.

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

    /// Makes the count of a tunnel. Call it before the head of its answer is sent: the
    /// tunnel is a task of its own, and the connection's task registers for its end
    /// ([`Self::wake_at_end`]) only once the connection is listed.
    pub(crate) fn of_tunnel(self: &Arc<Self>) -> InTunnel {
        self.list();
        InTunnel {
            held: Arc::clone(self),
            bytes: 0,
        }
    }
}

/// Bytes that wait in a tunnel. Dropping it counts none.
pub(crate) struct InTunnel {
    held: Arc<Held>,
    bytes: usize,
}

impl InTunnel {
    /// Counts so many bytes from now on.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.held.answers.fetch_add(bytes, Relaxed);
            self.held.answers.fetch_sub(self.bytes, Relaxed);
            self.bytes = bytes;
            self.held.count();
        }
    }
}

impl Drop for InTunnel {
    fn drop(&mut self) {
        self.set(0);
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
