//! A cap on calls in flight with a bounded queue before it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use sekisho_certs::store::{Result, StoreError};

pub(super) struct Gate {
    turns: Semaphore,
    waiting: AtomicUsize,
    most_waiting: usize,
}

impl Gate {
    pub(super) fn new(in_flight: usize, most_waiting: usize) -> Self {
        Self {
            turns: Semaphore::new(in_flight.min(Semaphore::MAX_PERMITS)),
            waiting: AtomicUsize::new(0),
            most_waiting,
        }
    }

    /// Waits for a turn, first come first served.
    pub(super) async fn enter(&self) -> Result<SemaphorePermit<'_>> {
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok(turn);
        }
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= self.most_waiting {
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(StoreError::Overloaded);
        }
        let _place = Place(&self.waiting);
        Ok(self.turns.acquire().await.expect("the gate never closes"))
    }
}

/// A place in the queue, given back when the wait ends or is given up.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
