//! Singleflight: one load per name, shared by all waiters.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Outcome;

/// A load in flight. Completes once, with one outcome for all waiters.
pub(super) struct Call<V> {
    progress: Mutex<Progress<V>>,
}

struct Progress<V> {
    outcome: Option<Outcome<V>>,
    /// Wakers by index. A waiter keeps its index until it is dropped: neither
    /// waking nor leaving searches the list.
    waiting: Vec<Option<Waker>>,
    /// Indexes that dropped waiters left.
    free: Vec<usize>,
}

impl<V> Call<V> {
    pub(super) fn new() -> Self {
        Self {
            progress: Mutex::new(Progress {
                outcome: None,
                waiting: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    /// Wakes all waiters with `outcome`. The first outcome stands.
    pub(super) fn complete(&self, outcome: Outcome<V>) {
        let waiting = {
            let mut progress = self.lock();
            progress.outcome.get_or_insert(outcome);
            std::mem::take(&mut progress.waiting)
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Progress<V>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Future of a load's outcome. Dropping it cancels nothing.
pub struct Wait<V> {
    on: Waited<V>,
}

enum Waited<V> {
    Known(Outcome<V>),
    Call {
        call: Arc<Call<V>>,
        place: Option<usize>,
    },
}

impl<V> Wait<V> {
    pub(super) fn on(call: Arc<Call<V>>) -> Self {
        Self {
            on: Waited::Call { call, place: None },
        }
    }

    pub(super) fn known(outcome: Outcome<V>) -> Self {
        Self {
            on: Waited::Known(outcome),
        }
    }
}

impl<V> Future for Wait<V> {
    type Output = Outcome<V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        let (call, place) = match &mut self.on {
            Waited::Known(outcome) => return Poll::Ready(outcome.clone()),
            Waited::Call { call, place } => (call, place),
        };
        let mut progress = call.lock();
        if let Some(outcome) = &progress.outcome {
            return Poll::Ready(outcome.clone());
        }
        let index = *place.get_or_insert_with(|| {
            progress.free.pop().unwrap_or_else(|| {
                progress.waiting.push(None);
                progress.waiting.len() - 1
            })
        });
        match &mut progress.waiting[index] {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<V> Drop for Wait<V> {
    fn drop(&mut self) {
        let Waited::Call {
            call,
            place: Some(place),
        } = &self.on
        else {
            return;
        };
        let mut progress = call.lock();
        if let Some(waker) = progress.waiting.get_mut(*place) {
            *waker = None;
            progress.free.push(*place);
        }
    }
}
