//! A circuit breaker: leaves a store alone that failed several times in a row.

use std::sync::Mutex;

use tokio::time::Instant;

use crate::backoff::{Backoff, Delays};
use sekisho_certs::lock;

/// Decides whether a call may be made at all.
///
/// | state | a call | becomes |
/// | --- | --- | --- |
/// | closed | passes | open after so many failures in a row |
/// | open | is refused until the delay is over | half-open |
/// | half-open | one passes as a trial, others are refused | closed if it succeeds; open, for longer, if it fails |
///
/// Only the trial ends an open state: late answers to calls from before say
/// nothing of the store as it is now.
#[derive(Debug)]
pub(crate) struct Breaker {
    failures: u32,
    backoff: Backoff,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Calls pass; so many have failed in a row.
    Closed(u32),
    /// No call passes before `until`; then one does, as a trial.
    Open {
        until: Instant,
        delays: Delays,
        has_trial: bool,
    },
}

impl Breaker {
    /// Opens after `failures` in a row, at least one, for the delays of
    /// `backoff`.
    pub(crate) fn new(failures: u32, backoff: Backoff) -> Self {
        Self {
            failures: failures.max(1),
            backoff,
            state: Mutex::new(State::Closed(0)),
        }
    }

    /// Lets a call pass, which then reports its outcome to the permit; none while the
    /// store is left alone.
    pub(crate) fn allow(&self) -> Option<Permit<'_>> {
        let mut state = lock(&self.state);
        let is_trial = match &mut *state {
            State::Closed(_) => false,
            State::Open {
                until, has_trial, ..
            } if Instant::now() >= *until && !*has_trial => {
                *has_trial = true;
                true
            }
            State::Open { .. } => return None,
        };
        Some(Permit {
            breaker: self,
            is_trial,
        })
    }
}

/// A call that may be made. Dropped without an outcome it changes nothing,
/// except that another call may be the trial.
#[derive(Debug)]
#[must_use = "a permit reports the outcome of its call"]
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    is_trial: bool,
}

impl Permit<'_> {
    /// The store has answered, even if the answer is of no use.
    pub(crate) fn succeeded(self) {
        let mut state = lock(&self.breaker.state);
        if self.is_trial || matches!(*state, State::Closed(_)) {
            *state = State::Closed(0);
        }
    }

    /// The store could not be reached, or did not answer in time.
    pub(crate) fn failed(self) {
        let mut state = lock(&self.breaker.state);
        let mut delays = match &*state {
            State::Closed(before) if before + 1 < self.breaker.failures => {
                *state = State::Closed(before + 1);
                return;
            }
            State::Closed(_) => self.breaker.backoff.delays(),
            State::Open { delays, .. } if self.is_trial => *delays,
            State::Open { .. } => return,
        };
        *state = State::Open {
            until: Instant::now() + delays.after_failure(),
            delays,
            has_trial: false,
        };
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.is_trial {
            return;
        }
        if let State::Open { has_trial, .. } = &mut *lock(&self.breaker.state) {
            *has_trial = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn breaker(failures: u32) -> Breaker {
        let backoff = Backoff {
            min: Duration::from_millis(100),
            max: Duration::from_millis(300),
            jitter: 0.0,
        };
        Breaker::new(failures, backoff)
    }

    fn fail(breaker: &Breaker) {
        breaker.allow().unwrap().failed();
    }

    fn is_open(breaker: &Breaker) -> bool {
        breaker.allow().is_none()
    }

    #[tokio::test(start_paused = true)]
    async fn only_failures_in_a_row_open_it() {
        let breaker = breaker(3);
        for _ in 0..5 {
            fail(&breaker);
            fail(&breaker);
            breaker.allow().unwrap().succeeded();
        }
        fail(&breaker);
        fail(&breaker);
        // A call without an outcome neither counts nor begins the row again.
        drop(breaker.allow().unwrap());
        assert!(!is_open(&breaker));
        fail(&breaker);
        assert!(is_open(&breaker));
    }

    #[tokio::test(start_paused = true)]
    async fn each_failed_trial_doubles_the_delay_up_to_the_longest() {
        let breaker = breaker(1);
        fail(&breaker);
        for delay in [100, 200, 300, 300] {
            advance(Duration::from_millis(delay - 1)).await;
            assert!(is_open(&breaker), "{delay}");
            advance(Duration::from_millis(1)).await;
            fail(&breaker);
        }
        advance(Duration::from_millis(300)).await;
        breaker.allow().unwrap().succeeded();
        // After a success the first delay is the shortest again.
        fail(&breaker);
        advance(Duration::from_millis(100)).await;
        breaker.allow().unwrap().succeeded();
    }

    #[tokio::test(start_paused = true)]
    async fn one_trial_passes_at_a_time() {
        let breaker = breaker(1);
        fail(&breaker);
        advance(Duration::from_millis(100)).await;
        let trial = breaker.allow().unwrap();
        assert!(is_open(&breaker));
        // A trial that is given up lets another try.
        drop(trial);
        let trial = breaker.allow().unwrap();
        assert!(is_open(&breaker));
        trial.succeeded();
        breaker.allow().unwrap().succeeded();
    }

    #[tokio::test(start_paused = true)]
    async fn late_outcomes_of_earlier_calls_change_nothing() {
        let breaker = breaker(2);
        let late = [(); 4].map(|()| breaker.allow().unwrap());
        let [success, failure, first, second] = late;
        first.failed();
        second.failed();
        success.succeeded();
        assert!(is_open(&breaker));
        failure.failed();
        advance(Duration::from_millis(100)).await;
        breaker.allow().unwrap().succeeded();
    }
}
