//! Bounded number of permits, shared by key.

mod state;

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use state::{Passed, State};

/// Bounded number of permits, which keys share by one of three rules. Clones are one gate.
///
/// A free permit goes to the first caller whose key may have one more. Other callers wait,
/// each key in a queue of its own, and returned permits go to the queues round robin. A key
/// that had its whole share goes after others. When no more callers may wait, the newest of
/// the longest queue is refused in favour of a key with fewer.
#[derive(Clone, Debug)]
pub struct Gate<K: Clone + Eq + Hash>(Arc<Mutex<State<K>>>);

/// Rule by which keys share the permits of a gate.
#[derive(Debug)]
pub enum Sharing<K> {
    /// A key has fewer permits than are left: alone half of them, the next key a quarter.
    FewerThanLeft,
    /// A key has at most so many permits.
    AtMost(fn(&K) -> usize),
    /// A key may have all permits. While others wait, a key with so many goes after them.
    WhileOthersWait(usize),
}

/// Reason why a caller gets no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Too many callers wait already, of this key most or as many as of any other.
    Full,
    /// No permit came free before the deadline.
    Late,
}

/// Permit of a [`Gate`]. Dropping it passes it on.
#[derive(Debug)]
pub struct Permit<K: Clone + Eq + Hash> {
    gate: Gate<K>,
    key: K,
    /// Counts for its key alone.
    rests: bool,
}

impl<K: Clone + Eq + Hash> Gate<K> {
    /// Makes a gate of so many permits, for which at most `waiting` callers wait.
    #[must_use]
    pub fn new(permits: usize, sharing: Sharing<K>, waiting: usize) -> Self {
        Self(Arc::new(Mutex::new(State::new(permits, sharing, waiting))))
    }

    /// Takes a permit, if the key may have one at once.
    #[must_use]
    pub fn try_enter(&self, key: K) -> Option<Permit<K>> {
        let is_taken = self.lock().take(&key);
        is_taken.then(|| self.permit(key))
    }

    /// Waits for a permit. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// [`Denied::Full`], if too many callers wait.
    pub async fn enter(&self, key: K) -> Result<Permit<K>, Denied> {
        let (number, mut permit) = {
            let mut state = self.lock();
            if state.take(&key) {
                return Ok(self.permit(key));
            }
            state.queue(&key)?
        };
        // Dropped before `permit`: one that was sent by then passes on.
        let _leaves = Leaves {
            gate: self,
            key: &key,
            number,
        };
        // The sender is dropped without sending only to make room.
        (&mut permit).await.map_err(|_| Denied::Full)
    }

    /// Waits for a permit until `until`.
    ///
    /// # Errors
    /// [`Denied`].
    pub async fn enter_until(&self, key: K, until: Instant) -> Result<Permit<K>, Denied> {
        let entered = timeout_at(until, self.enter(key)).await;
        entered.unwrap_or(Err(Denied::Late))
    }

    /// Returns how many permits are in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.lock().used
    }

    /// Returns how many permits a key has.
    #[must_use]
    pub fn used_by(&self, key: &K) -> usize {
        self.lock().used_by(key)
    }

    /// Returns the keys that have as many permits as are left, or, where none is left, as
    /// many as each key would have.
    #[must_use]
    pub fn sated(&self) -> Vec<K> {
        self.lock().sated()
    }

    fn permit(&self, key: K) -> Permit<K> {
        Permit {
            gate: self.clone(),
            key,
            rests: false,
        }
    }

    /// Hands permits to callers that waited. The lock is free: if a caller has left, its
    /// permit is dropped here, and passes on.
    fn hand(&self, passed: Passed<K>) {
        for (key, caller) in passed {
            let _ = caller.send(self.permit(key));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Clone + Eq + Hash> Permit<K> {
    /// Returns how many permits its key has, and how many are in use.
    #[must_use]
    pub fn used(&self) -> (usize, usize) {
        let state = self.gate.lock();
        (state.used_by(&self.key), state.used)
    }
}

impl<K: Clone + Eq + Hash + Send + 'static> Permit<K> {
    /// Passes the permit on, but for its key: there it counts for `pause` more. Spawns a
    /// task.
    pub fn rest(mut self, pause: Duration) {
        self.rests = true;
        let passed = self.gate.lock().rest();
        self.gate.hand(passed);
        tokio::spawn(async move {
            sleep(pause).await;
            drop(self);
        });
    }
}

impl<K: Clone + Eq + Hash> Drop for Permit<K> {
    fn drop(&mut self) {
        let passed = self.gate.lock().give_back(&self.key, self.rests);
        self.gate.hand(passed);
    }
}

/// Caller that leaves the queue with its future, if it still waits.
struct Leaves<'a, K: Clone + Eq + Hash> {
    gate: &'a Gate<K>,
    key: &'a K,
    number: u64,
}

impl<K: Clone + Eq + Hash> Drop for Leaves<'_, K> {
    fn drop(&mut self) {
        self.gate.lock().leave(self.key, self.number);
    }
}

#[cfg(test)]
mod tests;
