//! Unauthorized admin connections: those without a request that passed the
//! guard yet.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Queue of connections without an authorized request. When it is full, a new
/// connection closes the oldest. An authorized client sends its request at
/// once, and then holds a permit that strangers can't take.
#[derive(Debug, Default)]
pub(super) struct Strangers(VecDeque<Stranger>);

#[derive(Debug)]
struct Stranger {
    pass: Arc<Pass>,
    task: AbortHandle,
}

/// Permit of a connection whose request passed the guard; empty before.
#[derive(Debug, Default)]
pub(super) struct Pass(OnceLock<OwnedSemaphorePermit>);

impl Strangers {
    /// Starts the task of a new connection.
    pub(super) fn admit(&mut self, start: impl FnOnce(Arc<Pass>) -> AbortHandle) {
        self.0
            .retain(|stranger| !stranger.pass.is_given() && !stranger.task.is_finished());
        if self.0.len() >= MAX_STRANGERS
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.task.abort();
        }
        let pass = Arc::<Pass>::default();
        let task = start(Arc::clone(&pass));
        self.0.push_back(Stranger { pass, task });
    }
}

impl Pass {
    pub(super) fn is_given(&self) -> bool {
        self.0.get().is_some()
    }

    /// Takes a permit of `places` for the life of the connection, if it has
    /// none. Returns false if all are taken.
    pub(super) fn give(&self, places: &Arc<Semaphore>) -> bool {
        self.is_given()
            || Arc::clone(places)
                .try_acquire_owned()
                .is_ok_and(|place| self.0.set(place).is_ok())
    }
}

/// Connections that may be open before a request passed the guard.
pub(super) const MAX_STRANGERS: usize = 64;
