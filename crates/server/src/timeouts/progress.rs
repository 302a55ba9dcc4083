//! Progress of one stream of HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use tokio::task_local;

use super::Moment;

task_local! {
    static PROGRESS: Arc<Progress>;
}

/// Start of the wait for the client to take a piece of an answer. Measured in
/// the connection's flowing time: while the socket is blocked, the stream's
/// window is not the cause.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    waiting_since: Moment,
    /// Start of the wait for the client's next piece of the request's body,
    /// while an upstream would take it.
    reading_since: Moment,
}

impl Progress {
    /// Runs the future of a stream that has this progress.
    pub(crate) fn scope<F: Future>(self: Arc<Self>, stream: F) -> impl Future<Output = F::Output> {
        PROGRESS.scope(self, stream)
    }

    /// Returns the progress of the stream that this task serves; none over HTTP/1.1.
    pub(crate) fn current() -> Option<Arc<Self>> {
        PROGRESS.try_with(Arc::clone).ok()
    }

    /// Notes that a piece waits until the client has room for it.
    pub(crate) fn wait(&self, flowing: Duration) {
        self.waiting_since.set(millis(flowing));
    }

    /// Notes that the client had room.
    pub(crate) fn sent(&self) {
        self.waiting_since.clear();
    }

    /// Notes that the client's next piece is waited for, or no longer.
    pub(crate) fn wait_for_body(&self, waits: bool, elapsed: Duration) {
        if waits {
            self.reading_since.set(millis(elapsed));
        } else {
            self.reading_since.clear();
        }
    }

    /// Begins the wait for the client's next piece anew: until now, other bodies of the
    /// connection filled the window that it needs.
    pub(crate) fn postpone(&self, elapsed: Duration) {
        if self.reading_since.value().is_some() {
            self.reading_since.set(millis(elapsed));
        }
    }

    /// Returns whether the client has sent nothing of a request's body for
    /// longer than the limit.
    pub(crate) fn is_late(&self, elapsed: Duration, limit: Duration) -> bool {
        let since = self.reading_since.value();
        since.is_some_and(|since| millis(elapsed).saturating_sub(since) >= millis(limit))
    }

    pub(crate) fn is_stalled(&self, flowing: Duration, limit: Duration) -> bool {
        let waited = |since| millis(flowing).saturating_sub(since);
        let since = self.waiting_since.value();
        since.is_some_and(|since| waited(since) >= millis(limit))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}
