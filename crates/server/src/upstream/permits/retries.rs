//! Budget of retries on one backend.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sekisho_certs::lock;

/// Budget of retries on one backend: a fifth of its requests and three per second.
/// A server that fails all requests thus gets a fifth more of them, not twice as
/// many.
#[derive(Debug)]
pub(in crate::upstream) struct Retries {
    /// Requests so far. Relaxed: a race loses one request.
    requests: AtomicU64,
    /// Locked by retries alone.
    state: Mutex<State>,
}

/// Amounts in thousandths of a retry.
#[derive(Debug)]
struct State {
    left: u64,
    /// Time of the last refill, in milliseconds.
    filled: u64,
    /// Requests at the last refill.
    counted: u64,
}

impl Retries {
    pub(in crate::upstream) fn new(now: u64) -> Self {
        Self {
            requests: AtomicU64::new(0),
            state: Mutex::new(State {
                left: FIRST * RETRY,
                filled: now,
                counted: 0,
            }),
        }
    }

    /// Notes a request that is no retry.
    pub(in crate::upstream) fn request(&self) {
        // Cheaper than an atomic addition.
        let requests = self.requests.load(Relaxed);
        self.requests.store(requests + 1, Relaxed);
    }

    /// Takes one retry, if there is one.
    pub(in crate::upstream) fn take(&self, now: u64) -> bool {
        let mut state = lock(&self.state);
        state.refill(self.requests.load(Relaxed), now);
        let left = state.left.checked_sub(RETRY);
        state.left = left.unwrap_or(state.left);
        left.is_some()
    }
}

impl State {
    /// Adds what was earned since the last refill.
    fn refill(&mut self, requests: u64, now: u64) {
        // A race may have counted a request less.
        let counted = requests.saturating_sub(self.counted);
        let passed = now.saturating_sub(self.filled);
        self.counted = requests;
        self.filled = self.filled.max(now);
        let earned = counted
            .saturating_mul(PER_REQUEST)
            .saturating_add(passed.saturating_mul(PER_SECOND));
        self.left = self.left.saturating_add(earned).min(MOST * RETRY);
    }
}

/// A retry, in thousandths.
const RETRY: u64 = 1000;
/// Thousandths that a request adds: a fifth of a retry.
const PER_REQUEST: u64 = 200;
/// Retries per second, which are thousandths per millisecond.
const PER_SECOND: u64 = 3;
/// Retries at the start: enough until a server that is gone is ejected.
const FIRST: u64 = 10;
/// Most retries that are saved up.
const MOST: u64 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(retries: &Retries, now: u64) -> usize {
        (0..1000).take_while(|_| retries.take(now)).count()
    }

    fn requests(retries: &Retries, count: usize) {
        (0..count).for_each(|_| retries.request());
    }

    #[test]
    fn a_server_without_requests_has_three_retries_per_second() {
        let retries = Retries::new(1);
        assert_eq!(takes(&retries, 1), 10);
        assert_eq!(takes(&retries, 1_001), 3);
        assert_eq!(takes(&retries, 1_300), 0);
        assert_eq!(takes(&retries, 1_335), 1);
        assert_eq!(takes(&retries, u64::MAX), 100);
    }

    #[test]
    fn a_fifth_of_the_requests_may_be_retried() {
        let retries = Retries::new(1);
        takes(&retries, 1);
        requests(&retries, 50);
        assert_eq!(takes(&retries, 1), 10);
        requests(&retries, 10_000);
        assert_eq!(takes(&retries, 1), 100);
    }
}
