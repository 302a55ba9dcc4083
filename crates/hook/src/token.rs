//! Token of a client's prefix, as one run and its load share it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::imports::Admission;

/// Token of a prefix, asked for before the first store call.
#[derive(Default)]
pub(crate) struct Token(Mutex<Option<Box<dyn Admission>>>);

impl Token {
    /// Takes the token, if there is one. Dropping it gives it back.
    pub(crate) fn take(&self) -> Option<Box<dyn Admission>> {
        self.lock().take()
    }

    pub(crate) fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    pub(crate) fn put(&self, admission: Box<dyn Admission>) {
        *self.lock() = Some(admission);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Admission>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Spends a token that nobody took: the client left before the run's end.
impl Drop for Token {
    fn drop(&mut self) {
        if let Some(admission) = self.take() {
            admission.spend();
        }
    }
}
