//! One connection for each runtime that serves, within the pool's bound.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::connection::Connection;
use super::pool::Pool;
use crate::near;

/// When one was last begun to be made, for each runtime.
pub(super) struct Beside {
    begun: Mutex<Vec<(near::Id, Instant)>>,
    /// One at a time: each has a turn while it lasts.
    making: Arc<Semaphore>,
}

impl Default for Beside {
    fn default() -> Self {
        Self {
            begun: Mutex::default(),
            making: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Beside {
    /// Whether it is time to make one; the next time is after a rest.
    fn is_due(&self, id: near::Id) -> bool {
        let (mut all, now) = (self.lock(), Instant::now());
        match all.iter_mut().find(|(known, _)| *known == id) {
            Some((_, last)) if now < *last + REST => false,
            Some((_, last)) => {
                *last = now;
                true
            }
            None => {
                all.push((id, now));
                true
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(near::Id, Instant)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Begins to make a connection that the runtime drives which serves here,
    /// if it has none. Nobody waits for that: while it lasts, and should it
    /// fail, look-ups use others.
    pub(super) fn make_one_here(self: &Arc<Self>) {
        let Some(id) = near::id().filter(|id| !self.has(*id)) else {
            return;
        };
        let Ok(alone) = Arc::clone(&self.beside.making).try_acquire_owned() else {
            return;
        };
        let Some(turn) = self.spare_turn().filter(|_| self.beside.is_due(id)) else {
            return;
        };
        let Ok(goes) = self.room_for_one() else {
            return;
        };
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            pool.make_one(goes).await;
            drop((turn, alone));
        });
    }

    fn has(&self, id: near::Id) -> bool {
        let is_its = |connection: &Connection| connection.near() == Some(id);
        self.idle().iter().any(is_its) || self.shared.has(id)
    }

    /// An idle one of no worker's that goes for the new one, if there is no
    /// room; an error if none can be spared.
    fn room_for_one(&self) -> Result<Option<Connection>, ()> {
        let mut idle = self.idle();
        if self.has_room(idle.len()) {
            return Ok(None);
        }
        let mut others = (0..idle.len()).filter(|&at| idle[at].near().is_none());
        match (others.next(), others.next()) {
            (Some(one), Some(_)) => Ok(Some(idle.remove(one))),
            _ => Err(()),
        }
    }

    /// The old one goes when the new one is there, and stays if it can't be
    /// had.
    async fn make_one(&self, goes: Option<Connection>) {
        match self.ready().await {
            Ok(connection) => self.idle().push(connection),
            Err(fault) => {
                let error = fault.at(&self.url.to_string());
                tracing::warn!(%error, "no connection of a worker's own, its look-ups share others");
                self.idle().extend(goes);
            }
        }
    }
}

/// Between two attempts of a runtime: one that hangs may hold a thread that
/// resolves names, and such a runtime has few.
const REST: Duration = Duration::from_secs(10);
