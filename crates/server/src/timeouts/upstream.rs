//! Notes about requests that an upstream answers: it may be slow, and the client is
//! not.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::ConnTimeouts;
use crate::bodies::Held;

impl ConnTimeouts {
    /// Leaves the request's body to an upstream until the guard is dropped.
    pub(crate) fn pass_body(&self) -> PassedBody<'_> {
        self.passing.fetch_add(1, Relaxed);
        PassedBody(self)
    }

    /// Notes that an upstream takes more of a request's body than the client
    /// has sent, or that it no longer waits. Over HTTP/2 each stream has a limit
    /// of its own.
    pub(crate) fn wait_for_body(&self, waits: bool) {
        if self.multiplexed.load(Relaxed) {
            return;
        }
        if waits {
            self.read.set(self.now());
            self.awaited.fetch_add(1, Relaxed);
        } else {
            self.awaited.fetch_sub(1, Relaxed);
        }
    }

    /// Notes that a request is passed on to an upstream, until the guard is
    /// dropped.
    pub(crate) fn at_upstream(self: &Arc<Self>) -> AtUpstream {
        self.at_upstream.fetch_add(1, Relaxed);
        AtUpstream {
            timeouts: Arc::clone(self),
            waits: false,
        }
    }

    /// Returns how many answers wait for more of their upstreams, and not for the
    /// client.
    pub(crate) fn waiting_for_upstreams(&self) -> usize {
        self.unanswering.load(Relaxed) as usize
    }

    /// Returns whether an upstream answers a request. The stream then looks for
    /// the client's end.
    pub(crate) fn is_at_upstream(&self) -> bool {
        self.at_upstream.load(Relaxed) > 0
    }

    /// Returns how long answers go on for a client that has sent its end and takes
    /// nothing.
    pub(super) fn after_end(&self) -> Duration {
        if self.is_at_upstream() {
            ABANDONED
        } else {
            LEFT
        }
    }

    /// Notes that the client sends nothing more. A client that only closed its
    /// sending side still takes bytes (RFC 8446, section 6.1); of one that left,
    /// nothing more is seen.
    pub(crate) fn client_ended(&self) {
        self.ended.set_once(self.now());
    }
}

/// Body of a request that an upstream takes, until its answer begins.
pub(crate) struct PassedBody<'a>(&'a ConnTimeouts);

impl Drop for PassedBody<'_> {
    fn drop(&mut self) {
        self.0.passing.fetch_sub(1, Relaxed);
    }
}

/// Request that an upstream answers.
#[derive(Debug)]
pub(crate) struct AtUpstream {
    timeouts: Arc<ConnTimeouts>,
    /// The answer waits for more of the upstream.
    waits: bool,
}

impl AtUpstream {
    /// Notes that bytes of the client were taken.
    pub(crate) fn taken(&self, bytes: u64) {
        self.timeouts
            .taken(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Returns the count of the bytes of bodies; none over HTTP/1.1.
    pub(crate) fn held(&self) -> Option<&Arc<Held>> {
        self.timeouts.held()
    }

    /// Notes whether the answer waits for more of the upstream: its silence is not the
    /// client's.
    pub(crate) fn wait(&mut self, waits: bool) {
        if waits == self.waits {
            return;
        }
        self.waits = waits;
        let count = &self.timeouts.unanswering;
        if waits {
            count.fetch_add(1, Relaxed);
        } else {
            count.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for AtUpstream {
    fn drop(&mut self) {
        self.wait(false);
        self.timeouts.at_upstream.fetch_sub(1, Relaxed);
    }
}

/// How long an upstream may go on for a client that has sent its end and takes
/// nothing: it has left, or half-closed its connection.
const ABANDONED: Duration = Duration::from_secs(5);

/// How long answers without an upstream go on for such a client. They are at hand,
/// and wait for windows that it can't open any more.
const LEFT: Duration = Duration::from_secs(1);
