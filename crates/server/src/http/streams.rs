//! Runs the streams of one HTTP/2 connection, each with its own body limit.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use hyper::rt::Executor;

use crate::limits::timeouts::{ConnTimeouts, Flow};

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
    async fn stalled(&self, flow: &Flow) {
        loop {
            self.timeouts.stream_check().await;
            if self.timeouts.held().is_some_and(|held| held.is_full()) {
                flow.postpone();
            }
            if flow.client_is_late(self.timeouts.flowing(), self.limit) {
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
        let (streams, flow) = (self.clone(), Arc::<Flow>::default());
        // Boxed in place: Tokio moves a task's future several times.
        let task = Box::write(Box::new_uninit(), async move {
            let stream = Arc::clone(&flow).scope(stream);
            // h2 resets a stream that is dropped before its end, with CANCEL.
            tokio::select! {
                biased;
                () = stream => {}
                () = streams.stalled(&flow) => {
                    tracing::debug!("HTTP/2 stream reset: the client takes nothing of its answer, or sends nothing of its request");
                }
            }
        });
        tokio::spawn(Box::into_pin(task));
    }
}
