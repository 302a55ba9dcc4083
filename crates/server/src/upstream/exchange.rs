//! State of a request with a body while an upstream answers it: shared by the
//! request's task, which waits for the answer, and the body, which the task of
//! the upstream's connection polls.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use sekisho_certs::clock;
use tokio::time::Instant;

/// State of one request with a body. Relaxed ordering suffices: all tasks of a
/// worker run on its thread. Another worker that looks how long the body waits may see
/// the state of a moment ago.
#[derive(Debug)]
pub(super) struct Exchange {
    start: Instant,
    /// When the body last made progress, or waited for the client, in
    /// milliseconds since `start`.
    progress: AtomicU64,
    state: AtomicU8,
    body: AtomicWaker,
}

impl Exchange {
    /// Makes the state. A body that is `held` waits for [`Self::release`]
    /// (RFC 9110, section 10.1.1).
    pub(super) fn new(held: bool) -> Self {
        Self {
            start: clock::monotonic(),
            progress: AtomicU64::new(0),
            state: AtomicU8::new(if held { HELD } else { 0 }),
            body: AtomicWaker::new(),
        }
    }

    /// Notes that the body moved.
    pub(super) fn moved(&self) {
        let elapsed = (clock::monotonic() - self.start).as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        self.progress.store(elapsed, Relaxed);
    }

    /// Returns when the body last moved. A body that waits for the client moves
    /// all the time: the upstream is not late.
    pub(super) fn moved_at(&self) -> Instant {
        if self.is(WAITING) {
            return Instant::now();
        }
        self.start + Duration::from_millis(self.progress.load(Relaxed))
    }

    /// Lets a held body go on.
    pub(super) fn release(&self) {
        self.clear(HELD);
        self.body.wake();
    }

    /// Notes that the answer has begun. The client may take its time with the
    /// rest of the body.
    pub(super) fn answered(&self) {
        self.set(ANSWERED);
        if self.is(WAITING) {
            self.body.wake();
        }
    }

    /// Returns since when the body waits for the client; None if it does not, or need not
    /// any more.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let waits = self.is(WAITING) && !self.is(ANSWERED | CLOSED);
        waits.then(|| self.start + Duration::from_millis(self.progress.load(Relaxed)))
    }

    /// Ends the body, whose request has a connection that another one needs. Other
    /// workers call this: the body's task sees the flags once it is woken.
    pub(super) fn give_way(&self) {
        self.set(GAVE_WAY);
        self.close();
    }

    /// Ends the body: the rest of it is not read.
    pub(super) fn close(&self) {
        self.set(CLOSED);
        self.body.wake();
    }

    /// Registers the task that polls the body.
    pub(super) fn register(&self, waker: &Waker) {
        self.body.register(waker);
    }

    pub(super) fn set(&self, flag: u8) {
        self.state.fetch_or(flag, Relaxed);
    }

    pub(super) fn clear(&self, flag: u8) {
        self.state.fetch_and(!flag, Relaxed);
    }

    pub(super) fn is(&self, flag: u8) -> bool {
        self.state.load(Relaxed) & flag != 0
    }
}

/// The body waits for `100 Continue`.
pub(super) const HELD: u8 = 1;
/// The rest of the body is not read.
pub(super) const CLOSED: u8 = 2;
/// The whole body was handed over.
pub(super) const SENT: u8 = 4;
/// The answer has begun: the client may take its time with the rest.
pub(super) const ANSWERED: u8 = 8;
/// The body waits for the client.
pub(super) const WAITING: u8 = 16;
/// The body is longer than the site allows.
pub(super) const TOO_LARGE: u8 = 32;
/// The client's side of the body failed.
pub(super) const FAILED: u8 = 64;
/// The body waited long for its client, and another request needed its connection.
pub(super) const GAVE_WAY: u8 = 128;
