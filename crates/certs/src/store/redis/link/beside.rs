//! Connections of the runtimes that serve, beside a link's first one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{CONNECT, Dial, LONGEST_REST, SHORTEST_REST, State, watch_over};
use crate::store::near;

/// One for each runtime that has asked.
pub(super) struct Beside {
    dial: Dial,
    first: watch::Receiver<State>,
    slots: Mutex<Vec<(near::Id, Arc<Slot>)>>,
}

/// Where a runtime finds its connection while it is up.
type Slot = Mutex<Option<MultiplexedConnection>>;

impl Beside {
    pub(super) fn new(dial: Dial, first: watch::Receiver<State>) -> Self {
        Self {
            dial,
            first,
            slots: Mutex::default(),
        }
    }

    /// The one of the runtime that this thread serves with, if it is up. Who
    /// asks first has it made.
    pub(super) fn connection(&self) -> Option<MultiplexedConnection> {
        let slot = near::here(|here| {
            let mut slots = lock(&self.slots);
            if let Some((_, slot)) = slots.iter().find(|(id, _)| *id == here.id) {
                return Arc::clone(slot);
            }
            let slot = Arc::default();
            let keeper = keep(
                Arc::clone(&self.dial),
                self.first.clone(),
                Arc::clone(&slot),
            );
            here.runtime.spawn(keeper);
            slots.push((here.id, Arc::clone(&slot)));
            slot
        })?;
        lock(&slot).clone()
    }
}

/// Makes one whenever the first connection was made, and gives it up with
/// that: both lead to the same server, also when another takes its place. Ends
/// with the link.
async fn keep(dial: Dial, mut first: watch::Receiver<State>, slot: Arc<Slot>) {
    let is_up = |state: &State| matches!(state, State::Up(_));
    while first.wait_for(is_up).await.is_ok() {
        let Ok(Ok(dialled)) = timeout(CONNECT, dial()).await else {
            sleep(LONGEST_REST).await;
            continue;
        };
        *lock(&slot) = Some(dialled.connection.clone());
        tokio::select! {
            _ = watch_over(dialled) => {}
            _ = first.changed() => {}
        }
        *lock(&slot) = None;
        sleep(SHORTEST_REST).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
