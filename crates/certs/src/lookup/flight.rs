//! One load in the air and all who wait for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::Outcome;

/// A load in flight: ends once, with one outcome for all.
pub(super) struct Flight<V> {
    state: Mutex<State<V>>,
}

struct State<V> {
    outcome: Option<Outcome<V>>,
    /// A waiter's place stays its own until it goes, so that waking and
    /// leaving take no search.
    waiting: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl<V> Flight<V> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                outcome: None,
                waiting: Vec::new(),
                free: Vec::new(),
            }),
        }
    }

    /// Ends it. The first outcome stands.
    pub(super) fn land(&self, outcome: Outcome<V>) {
        let waiting = {
            let mut state = self.lock();
            state.outcome.get_or_insert(outcome);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().flatten().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State<V>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Resolves with a load's outcome. Dropping it cancels nothing.
pub struct Wait<V> {
    source: Source<V>,
}

enum Source<V> {
    Known(Outcome<V>),
    Flight {
        flight: Arc<Flight<V>>,
        place: Option<usize>,
    },
}

impl<V> Wait<V> {
    pub(super) fn on(flight: Arc<Flight<V>>) -> Self {
        Self {
            source: Source::Flight {
                flight,
                place: None,
            },
        }
    }

    pub(super) fn known(outcome: Outcome<V>) -> Self {
        Self {
            source: Source::Known(outcome),
        }
    }
}

impl<V> Future for Wait<V> {
    type Output = Outcome<V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        let (flight, place) = match &mut self.source {
            Source::Known(outcome) => return Poll::Ready(outcome.clone()),
            Source::Flight { flight, place } => (flight, place),
        };
        let mut state = flight.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        let index = *place.get_or_insert_with(|| {
            state.free.pop().unwrap_or_else(|| {
                state.waiting.push(None);
                state.waiting.len() - 1
            })
        });
        match &mut state.waiting[index] {
            Some(waker) => waker.clone_from(context.waker()),
            empty => *empty = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl<V> Drop for Wait<V> {
    fn drop(&mut self) {
        let Source::Flight {
            flight,
            place: Some(place),
        } = &self.source
        else {
            return;
        };
        let mut state = flight.lock();
        if let Some(waker) = state.waiting.get_mut(*place) {
            *waker = None;
            state.free.push(*place);
        }
    }
}
