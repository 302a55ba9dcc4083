//! Signing turns: a worker makes one slow signature at a time.
//!
//! A handshake with an RSA key of 4096 bits costs the client little and the
//! server 1.5 ms: 700 ClientHellos per second fill a core. A worker therefore
//! lets all other tasks run between two such signatures. Turns go round robin
//! to the client networks that wait. A network alone may use all turns.

use std::sync::Arc;

use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use crate::budget::{Denied, FairPermit, FairSemaphore, Prefix};

/// Signing turns of one worker.
#[derive(Debug)]
pub(crate) struct SigningTurns(Arc<FairSemaphore<Prefix>>);

/// The right to make one slow signature, while it is taken.
#[derive(Debug)]
pub(crate) struct SigningTurn<'a> {
    turns: &'a SigningTurns,
    prefix: Prefix,
    deadline: Instant,
    permit: Option<FairPermit<Prefix>>,
}

impl SigningTurns {
    pub(crate) fn new() -> Self {
        Self(Arc::new(FairSemaphore::new(1, 1, MAX_WAITING)))
    }

    /// Returns a turn of a client that is not taken yet.
    pub(crate) fn turn(&self, prefix: Prefix, deadline: Instant) -> SigningTurn<'_> {
        SigningTurn {
            turns: self,
            prefix,
            deadline,
            permit: None,
        }
    }
}

impl SigningTurn<'_> {
    /// Gives the turn back, if it is taken, once every other task that is ready has run.
    pub(crate) async fn give_back(&mut self) {
        if self.permit.is_some() {
            yield_now().await;
            self.permit = None;
        }
    }

    /// Waits for the turn.
    ///
    /// # Errors
    /// [`Denied`], if too many wait, or the turn does not come before the
    /// deadline.
    pub(crate) async fn take(&mut self) -> Result<(), Denied> {
        let permit = FairSemaphore::enter(&self.turns.0, self.prefix);
        let permit = timeout_at(self.deadline, permit).await;
        self.permit = Some(permit.map_err(|_| Denied::Full)??);
        Ok(())
    }
}

/// Handshakes of a worker that wait for a turn: as many as it signs in 6 s. A
/// handshake has 10 s by default.
const MAX_WAITING: usize = 4096;
