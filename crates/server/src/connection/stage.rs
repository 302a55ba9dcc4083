//! Stages of a connection, each with memory of its own.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Stage of a connection: a future that returns the next stage, or None at the end.
///
/// A task whose future had all stages in it would have room for the largest, a request
/// in flight, while it waits for one.
pub(crate) struct Stage(Pin<Box<dyn Future<Output = Option<Stage>> + Send>>);

impl Stage {
    pub(crate) fn new(stage: impl Future<Output = Option<Self>> + Send + 'static) -> Self {
        Self(Box::pin(stage))
    }

    /// Makes a stage that no other follows.
    pub(crate) fn last(stage: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::new(async move {
            stage.await;
            None
        })
    }

    /// Polls this stage, and those that follow. Frees the memory of each before the next
    /// is polled.
    pub(crate) fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while let Some(next) = ready!(self.0.as_mut().poll(cx)) {
            *self = next;
        }
        Poll::Ready(())
    }
}
