//! Leaves a store alone that failed several times in a row.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use sekisho_certs::store::{Result, StoreError};

#[derive(Debug)]
pub(super) struct Breaker {
    failures: u32,
    rest: Duration,
    longest_rest: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Calls pass; so many failed in a row.
    Closed(u32),
    /// No call passes before `until`, then one does, to try.
    Open {
        until: Instant,
        rest: Duration,
        trying: bool,
    },
}

impl Breaker {
    pub(super) fn new(failures: u32, rest: Duration, longest_rest: Duration) -> Self {
        Self {
            failures: failures.max(1),
            rest,
            longest_rest,
            state: Mutex::new(State::Closed(0)),
        }
    }

    /// Lets a call pass, or says that the store rests.
    pub(super) fn attempt(&self) -> Result<Attempt<'_>> {
        let mut state = self.lock();
        let trial = match &mut *state {
            State::Closed(_) => false,
            State::Open { until, trying, .. } if Instant::now() >= *until && !*trying => {
                *trying = true;
                true
            }
            State::Open { .. } => {
                return Err(StoreError::Unavailable(
                    "it failed several times in a row and is left alone for a moment".into(),
                ));
            }
        };
        Ok(Attempt {
            breaker: self,
            trial,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One call that passed. Dropped without an outcome it changes nothing, but
/// lets another call try.
pub(super) struct Attempt<'a> {
    breaker: &'a Breaker,
    trial: bool,
}

impl Attempt<'_> {
    pub(super) fn answered(self) {
        let mut state = self.breaker.lock();
        // A late answer from before the rest does not end it: only a trial.
        if self.trial || matches!(*state, State::Closed(_)) {
            *state = State::Closed(0);
        }
    }

    pub(super) fn failed(self) {
        let Breaker {
            failures,
            rest,
            longest_rest,
            ..
        } = *self.breaker;
        let mut state = self.breaker.lock();
        let next = match *state {
            State::Closed(before) if before + 1 < failures => {
                *state = State::Closed(before + 1);
                return;
            }
            State::Closed(_) => rest,
            State::Open { rest, .. } if self.trial => (rest * 2).min(longest_rest),
            State::Open { .. } => return,
        };
        *state = State::Open {
            until: Instant::now() + next,
            rest: next,
            trying: false,
        };
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.trial {
            return;
        }
        if let State::Open { trying, .. } = &mut *self.breaker.lock() {
            *trying = false;
        }
    }
}
