//! One connection for each runtime that serves, within the pool's bound.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::pool::Pool;
use crate::store::near;

/// When one was last begun to be made, for each runtime.
#[derive(Default)]
pub(super) struct Beside(Mutex<Vec<(near::Id, Instant)>>);

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    /// Begins to make a connection that the runtime drives which serves here,
    /// if it has none. Nobody waits for that: while it lasts, and should it
    /// fail, look-ups use others.
    pub(super) fn make_one_here(self: &Arc<Self>) {
        let Some(id) = near::id().filter(|id| !self.shared.has(*id)) else {
            return;
        };
        let Some(turn) = self.spare_turn().filter(|_| self.beside.is_due(id)) else {
            return;
        };
        if self.makes_room() {
            tokio::spawn(make(Arc::clone(self), turn));
        }
    }

    /// Whether there is room for a connection. An idle one of no worker's goes
    /// for it, if another is left.
    fn makes_room(&self) -> bool {
        let mut idle = self.idle();
        if self.has_room(idle.len()) {
            return true;
        }
        let mut others = (0..idle.len()).filter(|&at| idle[at].near().is_none());
        let (Some(one), Some(_)) = (others.next(), others.next()) else {
            return false;
        };
        drop(idle.remove(one));
        true
    }
}

async fn make(pool: Arc<Pool>, turn: OwnedSemaphorePermit) {
    match pool.ready().await {
        Ok(connection) => pool.idle().push(connection),
        Err(fault) => {
            let error = fault.at(&pool.url.to_string());
            tracing::warn!(%error, "no connection of a worker's own, its look-ups share others");
        }
    }
    drop(turn);
}

/// Between two attempts of a runtime: one that hangs may hold a thread that
/// resolves names, and such a runtime has few.
const REST: Duration = Duration::from_secs(30);
