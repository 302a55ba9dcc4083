//! Connections of the runtimes that serve, beside a link's first one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::{CONNECT, SHORTEST_REST, State, watch_over};
use crate::near;
use crate::redis::dial::{Dialled, Route};

/// One for each runtime that has asked.
pub(super) struct Beside {
    shown: String,
    first: watch::Receiver<State>,
    slots: Mutex<Vec<(near::Id, Arc<Slot>)>>,
}

/// Where a runtime finds its connection while it is up.
type Slot = Mutex<Option<MultiplexedConnection>>;

impl Beside {
    pub(super) fn new(shown: String, first: watch::Receiver<State>) -> Self {
        Self {
            shown,
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
            let keeper = keep(self.shown.clone(), self.first.clone(), Arc::clone(&slot));
            here.runtime.spawn(keeper);
            slots.push((here.id, Arc::clone(&slot)));
            slot
        })?;
        lock(&slot).clone()
    }
}

/// Makes one whenever the first connection was made, to the same server, and
/// gives it up with that: the two never answer for different ones. Ends with
/// the link.
async fn keep(shown: String, mut first: watch::Receiver<State>, slot: Arc<Slot>) {
    let mut rest = FIRST_REST;
    while let Some(route) = up(&mut first).await {
        let is_over = match dial(&route).await {
            Ok(dialled) => {
                rest = FIRST_REST;
                *lock(&slot) = Some(dialled.connection.clone());
                let ended = tokio::select! {
                    _ = watch_over(dialled) => Ok(()),
                    changed = first.changed() => changed,
                };
                *lock(&slot) = None;
                sleep(SHORTEST_REST).await;
                ended.is_err()
            }
            Err(why) => {
                if rest == FIRST_REST {
                    tracing::warn!(
                        server = shown,
                        why,
                        "no connection to Redis of a worker's own, its look-ups share one"
                    );
                }
                // A server that has no room is not to be asked again and again.
                let changed = timeout(rest, first.changed()).await;
                rest = (rest * 2).min(LONGEST_REST);
                matches!(changed, Ok(Err(_)))
            }
        };
        // The last state stays readable when the link is gone.
        if is_over {
            return;
        }
    }
}

/// The way to where the first connection leads, once there is one.
async fn up(first: &mut watch::Receiver<State>) -> Option<Arc<Route>> {
    let is_up = |state: &State| matches!(state, State::Up(..));
    match &*first.wait_for(is_up).await.ok()? {
        State::Up(_, route) => Some(Arc::clone(route)),
        State::Connecting | State::Down(_) => None,
    }
}

async fn dial(route: &Route) -> Result<Dialled, String> {
    let dialled = timeout(CONNECT, route.dial()).await;
    dialled.unwrap_or_else(|_| Err(format!("no answer within {CONNECT:?}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_secs(30);
