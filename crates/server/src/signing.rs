//! Turns to sign with keys that take long.
//!
//! A client pays little for a handshake with an RSA key of 4096 bits, the
//! server 1.5 ms: 700 ClientHellos a second fill a core. So a worker makes one
//! such signature at a time, lets all other tasks run before the next, and
//! hands the turns out to the client networks that wait, one after the other.
//! While no other network has work, one may use all of a worker.

use std::sync::Arc;

use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use crate::budget::{Call, Calls, Denied, Prefix};

/// The turns of one worker.
#[derive(Debug)]
pub(crate) struct SigningTurns(Arc<Calls>);

/// The right to make one slow signature.
#[derive(Debug)]
pub(crate) struct SigningTurn<'a> {
    turns: &'a SigningTurns,
    prefix: Prefix,
    deadline: Instant,
    call: Option<Call>,
}

impl SigningTurns {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Calls::new(1, 1, MAX_WAITING)))
    }

    /// Waits for a turn.
    ///
    /// # Errors
    /// [`Denied`], if too many wait, or the turn does not come before the
    /// deadline.
    pub(crate) async fn take(
        &self,
        prefix: Prefix,
        deadline: Instant,
    ) -> Result<SigningTurn<'_>, Denied> {
        let mut turn = SigningTurn {
            turns: self,
            prefix,
            deadline,
            call: None,
        };
        turn.retake().await?;
        Ok(turn)
    }
}

impl SigningTurn<'_> {
    /// Gives the turn back once every other task that is ready has run.
    pub(crate) async fn give_back(&mut self) {
        yield_now().await;
        self.call = None;
    }

    /// Waits for another turn.
    ///
    /// # Errors
    /// As [`SigningTurns::take`].
    pub(crate) async fn retake(&mut self) -> Result<(), Denied> {
        let call = Calls::enter(&self.turns.0, self.prefix);
        let call = timeout_at(self.deadline, call).await;
        self.call = Some(call.map_err(|_| Denied::Full)??);
        Ok(())
    }
}

/// Handshakes of a worker that wait for a turn: what it signs in 6 s, of the
/// 10 s that a handshake has by default.
const MAX_WAITING: usize = 4096;
