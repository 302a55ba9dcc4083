//! Mutexes whose values no panic leaves half-done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one that is poisoned: its value is whole between any two statements.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
