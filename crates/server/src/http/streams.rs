//! Runs the streams of one HTTP/2 connection, each with its own body limit.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::task_local;

use crate::timeouts::{ConnTimeouts, Moment};

/// Executor of a connection's streams. It resets a stream whose client takes
/// nothing of its answer, or sends nothing of its request, independent of other
/// streams.
#[derive(Clone)]
pub(super) struct Streams {
    timeouts: Arc<ConnTimeouts>,
    /// How long a client may leave a piece unread.
    limit: Duration,
}

impl Streams {
    pub(super) fn new(timeouts: &Arc<ConnTimeouts>, limit: Duration) -> Self {
        Self {
            timeouts: Arc::clone(timeouts),
            limit,
        }
    }

    /// Resolves when the client has left a piece unread for longer than the
    /// limit, or has sent nothing of a body that is waited for.
    async fn stalled(&self, progress: &Progress) {
        loop {
            self.timeouts.stream_check().await;
            if self.timeouts.held().is_some_and(|held| held.is_full()) {
                progress.postpone(self.timeouts.elapsed());
            }
            if progress.is_stalled(self.timeouts.flowing(), self.limit)
                || progress.is_late(self.timeouts.elapsed(), self.limit)
            {
                return;
            }
        }
    }
}

impl<F> Executor<F> for Streams
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let (streams, progress) = (self.clone(), Arc::new(Progress::default()));
        // Boxed in place: Tokio moves a task's future several times.
        let task = Box::write(Box::new_uninit(), async move {
            let stream = PROGRESS.scope(Arc::clone(&progress), stream);
            // h2 resets a stream that is dropped before its end, with CANCEL.
            tokio::select! {
                biased;
                () = stream => {}
                () = streams.stalled(&progress) => {
                    tracing::debug!("HTTP/2 stream reset: the client takes nothing of its answer, or sends nothing of its request");
                }
            }
        });
        tokio::spawn(Box::into_pin(task));
    }
}

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
    /// Returns the progress of the stream that this task serves; none over HTTP/1.1.
    pub(crate) fn current() -> Option<Arc<Self>> {
        PROGRESS.try_with(Arc::clone).ok()
    }

    /// Notes that a piece waits until the client has room for it.
    pub(super) fn wait(&self, flowing: Duration) {
        self.waiting_since.set(millis(flowing));
    }

    /// Notes that the client had room.
    pub(super) fn sent(&self) {
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
    fn postpone(&self, elapsed: Duration) {
        if self.reading_since.value().is_some() {
            self.reading_since.set(millis(elapsed));
        }
    }

    /// Returns whether the client has sent nothing of a request's body for
    /// longer than the limit.
    fn is_late(&self, elapsed: Duration, limit: Duration) -> bool {
        let since = self.reading_since.value();
        since.is_some_and(|since| millis(elapsed).saturating_sub(since) >= millis(limit))
    }

    fn is_stalled(&self, flowing: Duration, limit: Duration) -> bool {
        let waited = |since| millis(flowing).saturating_sub(since);
        let since = self.waiting_since.value();
        since.is_some_and(|since| waited(since) >= millis(limit))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}
