//! Token of a client's prefix, as one run and its load share it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use sekisho_certs::lock;

use crate::choice::Charge;

/// Token of a prefix, asked for before the first store call.
#[derive(Default)]
pub(crate) struct Token {
    charge: Mutex<Option<Charge>>,
    /// Set while a store call is unanswered, and once one has failed.
    outage: AtomicBool,
    /// Set once the token must be spent, whatever the run chooses.
    owed: AtomicBool,
}

impl Token {
    /// Takes the token, if there is one. Dropping it gives it back.
    pub(crate) fn take(&self) -> Option<Charge> {
        lock(&self.charge).take()
    }

    pub(crate) fn is_there(&self) -> bool {
        lock(&self.charge).is_some()
    }

    /// Waits for a store call. Without an answer, as if the future is dropped, it has failed.
    pub(crate) async fn ask<T>(
        &self,
        call: impl Future<Output = T>,
        is_outage: impl FnOnce(&T) -> bool,
    ) -> T {
        let had_failed = self.outage.swap(true, Relaxed);
        let answer = call.await;
        if !is_outage(&answer) {
            self.outage.store(had_failed, Relaxed);
        }
        answer
    }

    /// Tells whether a store call failed: then a failure of the run is no fault of the
    /// client. Relaxed: one thread runs a script.
    pub(crate) fn met_outage(&self) -> bool {
        self.outage.load(Relaxed)
    }

    /// Notes that the token must be spent: a load found nothing, or took what others need.
    pub(crate) fn owe(&self) {
        self.owed.store(true, Relaxed);
    }

    pub(crate) fn is_owed(&self) -> bool {
        self.owed.load(Relaxed)
    }

    pub(crate) fn put(&self, charge: Charge) {
        *lock(&self.charge) = Some(charge);
    }
}

/// Spends a token that nobody took: the client left before the run's end.
impl Drop for Token {
    fn drop(&mut self) {
        if let Some(charge) = self.take() {
            charge();
        }
    }
}
