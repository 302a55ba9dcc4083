//! Budget of retries.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Retries that the requests of one pool may cause: one for each five requests,
/// and a few at the start. A dead server is not asked twice by everybody.
/// Relaxed: one thread.
#[derive(Debug)]
pub(super) struct RetryBudget {
    /// Fifths of a retry.
    tokens: AtomicU32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            tokens: AtomicU32::new(FULL),
        }
    }
}

impl RetryBudget {
    /// Notes a request.
    pub(super) fn request(&self) {
        let tokens = self.tokens.load(Relaxed);
        if tokens < FULL {
            self.tokens.store(tokens + 1, Relaxed);
        }
    }

    /// Takes a retry. Returns false if none is left.
    pub(super) fn take(&self) -> bool {
        let tokens = self.tokens.load(Relaxed);
        let left = tokens.checked_sub(RETRY);
        if let Some(left) = left {
            self.tokens.store(left, Relaxed);
        }
        left.is_some()
    }
}

/// A fifth is 20 %.
const RETRY: u32 = 5;
/// Retries at the start, and after a quiet time.
const FULL: u32 = 10 * RETRY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_requests_is_retried() {
        let budget = RetryBudget::default();
        assert_eq!((0..100).filter(|_| budget.take()).count(), 10);
        let retried = (0..100).filter(|_| {
            budget.request();
            budget.take()
        });
        assert_eq!(retried.count(), 20);
    }
}
