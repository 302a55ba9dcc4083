//! Notes about requests that an upstream answers: it may be slow, and the client is
//! not.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::{ConnTimeouts, Flow};

impl ConnTimeouts {
    /// Notes that a request is passed on to an upstream, until the guard is
    /// dropped.
    pub(crate) fn at_upstream(self: &Arc<Self>) -> AtUpstream {
        self.at_upstream.fetch_add(1, Relaxed);
        AtUpstream {
            timeouts: Arc::clone(self),
            flow: self.flow(),
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

/// Request that an upstream answers.
#[derive(Debug)]
pub(crate) struct AtUpstream {
    pub(crate) timeouts: Arc<ConnTimeouts>,
    pub(crate) flow: Arc<Flow>,
}

impl AtUpstream {
    /// Notes that bytes of the client were taken.
    pub(crate) fn taken(&self, bytes: u64) {
        self.timeouts
            .taken(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// Notes whether the answer waits for more of the upstream: its silence is not the
    /// client's.
    pub(crate) fn wait(&self, waits: bool) {
        let count = &self.timeouts.unanswering;
        if waits && self.flow.await_answer() {
            count.fetch_add(1, Relaxed);
        } else if !waits && self.flow.has_answer() {
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
