//! Singleflight: one load per name, shared by all waiters.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::future::{FutureExt, Shared};
use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::{LookupError, Outcome};

/// A load in flight, shared by its waiters.
pub(super) type Call<V> = Shared<Receiver<Outcome<V>>>;

/// Begins a call. It ends for all waiters once its sender is used or dropped.
pub(super) fn begin<V>() -> (Sender<Outcome<V>>, Call<V>) {
    let (complete, outcome) = channel();
    (complete, outcome.shared())
}

/// Future of a load's outcome. Dropping it cancels nothing.
pub struct Wait<V>(Waited<V>);

enum Waited<V> {
    Known(Outcome<V>),
    Call(Call<V>),
}

impl<V> Wait<V> {
    pub(super) fn on(call: Call<V>) -> Self {
        Self(Waited::Call(call))
    }

    pub(super) fn known(outcome: Outcome<V>) -> Self {
        Self(Waited::Known(outcome))
    }
}

impl<V> Future for Wait<V> {
    type Output = Outcome<V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        match &mut self.0 {
            Waited::Known(outcome) => Poll::Ready(outcome.clone()),
            Waited::Call(call) => {
                let broken_off = |_| Outcome::Failed(LookupError::BrokenOff);
                call.poll_unpin(context)
                    .map(|ended| ended.unwrap_or_else(broken_off))
            }
        }
    }
}
