//! Unauthenticated admin connections: those without a request that was let in yet.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Queue of connections without an authorized request. When it is full, a new
/// connection closes the oldest. An authorized client sends its request at
/// once, and then holds a permit that others can't take.
#[derive(Debug, Default)]
pub(super) struct Unauthenticated(VecDeque<Newcomer>);

#[derive(Debug)]
struct Newcomer {
    permit: Arc<AccessPermit>,
    task: AbortHandle,
}

/// Permit of a connection whose request was let in; empty before.
#[derive(Debug, Default)]
pub(super) struct AccessPermit(OnceLock<OwnedSemaphorePermit>);

impl Unauthenticated {
    /// Starts the task of a new connection.
    pub(super) fn admit(&mut self, start: impl FnOnce(Arc<AccessPermit>) -> AbortHandle) {
        self.0
            .retain(|newcomer| !newcomer.permit.is_taken() && !newcomer.task.is_finished());
        if self.0.len() >= MAX_UNAUTHENTICATED
            && let Some(oldest) = self.0.pop_front()
        {
            oldest.task.abort();
        }
        let permit = Arc::<AccessPermit>::default();
        let task = start(Arc::clone(&permit));
        self.0.push_back(Newcomer { permit, task });
    }
}

impl AccessPermit {
    pub(super) fn is_taken(&self) -> bool {
        self.0.get().is_some()
    }

    /// Takes a permit of `permits` for the life of the connection, if it has
    /// none. Returns false if all are taken.
    pub(super) fn take_from(&self, permits: &Arc<Semaphore>) -> bool {
        self.is_taken()
            || Arc::clone(permits)
                .try_acquire_owned()
                .is_ok_and(|permit| self.0.set(permit).is_ok())
    }
}

/// Connections that may be open before a request was let in.
pub(super) const MAX_UNAUTHENTICATED: usize = 64;
