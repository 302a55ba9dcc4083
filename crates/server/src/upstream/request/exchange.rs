//! State of a request with a body while an upstream answers it: shared by the
//! request's task, which waits for the answer, and the body, which the task of
//! the upstream's connection polls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use crate::limits::timeouts::Flow;
use crate::upstream::failure::Failure;

/// State of one request with a body. Relaxed ordering suffices: all tasks of a
/// worker run on its thread. Another worker that looks how long the body waits may see
/// the state of a moment ago.
#[derive(Debug)]
pub(in crate::upstream) struct Exchange {
    /// Who owes the next byte of the body.
    pub(in crate::upstream) flow: Arc<Flow>,
    state: AtomicU8,
    body: AtomicWaker,
}

impl Exchange {
    /// Makes the state. A body that is `held` waits for [`Self::release`]
    /// (RFC 9110, section 10.1.1).
    pub(in crate::upstream) fn new(held: bool, flow: Arc<Flow>) -> Self {
        flow.pass_body();
        Self {
            flow,
            state: AtomicU8::new(if held { HELD } else { 0 }),
            body: AtomicWaker::new(),
        }
    }

    /// Lets a held body go on.
    pub(in crate::upstream) fn release(&self) {
        self.clear(HELD);
        self.body.wake();
    }

    /// Notes that the answer has begun. The client may take its time with the
    /// rest of the body.
    pub(in crate::upstream) fn answered(&self) {
        self.set(ANSWERED);
        if self.flow.client_owes_body().is_some() {
            self.body.wake();
        }
    }

    /// Returns since when the body waits for the client; None if it does not, or need not
    /// any more.
    pub(in crate::upstream) fn waiting_since(&self) -> Option<Instant> {
        let since = self.flow.client_owes_body();
        since.filter(|_| !self.is(ANSWERED | CLOSED))
    }

    /// Ends the body, whose request has a connection that another one needs. Other
    /// workers call this: the body's task sees the flags once it is woken.
    pub(in crate::upstream) fn give_way(&self) {
        self.set(GAVE_WAY);
        self.close();
    }

    /// Ends the body: the rest of it is not read.
    pub(in crate::upstream) fn close(&self) {
        self.set(CLOSED);
        self.body.wake();
    }

    /// Returns why the client's side ended the body, if it did.
    pub(in crate::upstream) fn failure(&self) -> Option<Failure> {
        let failures = [
            (TOO_LARGE, Failure::TooLarge),
            (GAVE_WAY, Failure::GaveWay),
            (FAILED, Failure::Client),
        ];
        let failed = failures.into_iter().find(|(flag, _)| self.is(*flag));
        failed.map(|(_, failure)| failure)
    }

    /// Registers the task that polls the body.
    pub(in crate::upstream) fn register(&self, waker: &Waker) {
        self.body.register(waker);
    }

    pub(in crate::upstream) fn set(&self, flag: u8) {
        self.state.fetch_or(flag, Relaxed);
    }

    pub(in crate::upstream) fn clear(&self, flag: u8) {
        self.state.fetch_and(!flag, Relaxed);
    }

    pub(in crate::upstream) fn is(&self, flag: u8) -> bool {
        self.state.load(Relaxed) & flag != 0
    }
}

/// The body waits for `100 Continue`.
pub(in crate::upstream) const HELD: u8 = 1;
/// The rest of the body is not read.
pub(in crate::upstream) const CLOSED: u8 = 2;
/// The whole body was handed over.
pub(in crate::upstream) const SENT: u8 = 4;
/// The answer has begun: the client may take its time with the rest.
pub(in crate::upstream) const ANSWERED: u8 = 8;
/// The body is longer than the site allows.
pub(in crate::upstream) const TOO_LARGE: u8 = 16;
/// The client's side of the body failed.
pub(in crate::upstream) const FAILED: u8 = 32;
/// The body waited long for its client, and another request needed its connection.
pub(in crate::upstream) const GAVE_WAY: u8 = 64;
