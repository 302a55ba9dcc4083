//! HTTP/2 connections, which requests share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use futures_util::task::AtomicWaker;
use hyper::client::conn::http2;
use sekisho_certs::lock;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::KEEP;
use crate::upstream::permits::Permit;
use crate::upstream::request::upload::Upload;

/// HTTP/2 connection.
#[derive(Clone, Debug)]
pub(in crate::upstream) struct Shared {
    pub(in crate::upstream) sender: http2::SendRequest<Upload>,
    pub(in crate::upstream) streams: Arc<Streams>,
    /// Another request opened it.
    pub(in crate::upstream) reused: bool,
}

/// Streams of an HTTP/2 connection. Relaxed: one thread.
#[derive(Debug)]
pub(in crate::upstream) struct Streams {
    open: AtomicUsize,
    /// Field blocks that the server may still send.
    blocks: AtomicUsize,
    /// Number of open streams that the server allows at most.
    most: AtomicUsize,
    /// What the server sent too much of: the connection ended with all streams.
    pub(in crate::upstream) flood: OnceLock<&'static str>,
    /// A request was the first to fail by that.
    blamed: AtomicBool,
    /// When the last stream ended.
    pub(super) used: Mutex<Instant>,
    /// Makes room for another connection.
    pub(super) is_spare: AtomicBool,
    /// Task of the connection that reads `most`. SETTINGS wake it.
    pub(in crate::upstream) reader: AtomicWaker,
    /// Notified when a stream ends.
    pub(super) room: OnceLock<Arc<Notify>>,
    /// Permit of the connection, set by the request that opened it.
    pub(in crate::upstream) permit: OnceLock<Permit>,
}

impl Shared {
    pub(super) fn has_room(&self) -> bool {
        self.streams.open.load(Relaxed) < self.streams.most.load(Relaxed).min(MAX_STREAMS)
    }

    pub(super) fn has_no_stream(&self) -> bool {
        self.streams.open.load(Relaxed) == 0
    }

    pub(super) fn is_unused(&self, now: Instant) -> bool {
        self.has_no_stream() && *lock(&self.streams.used) + KEEP < now
    }
}

impl Streams {
    pub(in crate::upstream) fn new() -> Self {
        Self {
            open: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            most: AtomicUsize::new(MAX_STREAMS),
            flood: OnceLock::new(),
            blamed: AtomicBool::new(false),
            used: Mutex::new(Instant::now()),
            is_spare: AtomicBool::new(false),
            reader: AtomicWaker::new(),
            room: OnceLock::new(),
            permit: OnceLock::new(),
        }
    }

    /// Notes how many open streams the server allows.
    pub(in crate::upstream) fn allow(&self, most: usize) {
        let before = self.most.swap(most, Relaxed);
        if let Some(room) = self.room.get().filter(|_| before < most) {
            room.notify_waiters();
        }
    }

    /// Counts a stream until the guard is dropped.
    pub(in crate::upstream) fn open(self: &Arc<Self>) -> OpenStream {
        self.open.fetch_add(1, Relaxed);
        let blocks = self.blocks.load(Relaxed) + BLOCKS;
        self.blocks.store(blocks.min(MAX_STREAMS * BLOCKS), Relaxed);
        OpenStream(Arc::clone(self))
    }

    /// Notes a field block of the server. Returns false if it may send none: all
    /// streams' informational answers together were too many.
    pub(in crate::upstream) fn take_block(&self) -> bool {
        let left = self.blocks.load(Relaxed).checked_sub(1);
        self.blocks.store(left.unwrap_or(0), Relaxed);
        left.is_some()
    }

    /// Returns true once, for the stream that is the server's one failure.
    pub(in crate::upstream) fn blame(&self) -> bool {
        !self.blamed.swap(true, Relaxed)
    }
}

/// Stream of an HTTP/2 connection.
#[derive(Debug)]
pub(in crate::upstream) struct OpenStream(Arc<Streams>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
        *lock(&self.0.used) = Instant::now();
        if let Some(room) = self.0.room.get() {
            room.notify_one();
        }
    }
}

/// Field blocks of a stream: eight informational answers, the final one, trailers.
const BLOCKS: usize = 10;
/// Streams of a connection, whatever the server allows.
pub(in crate::upstream) const MAX_STREAMS: usize = 100;
