//! Permits to sign: a worker makes one slow signature at a time.
//!
//! A handshake with an RSA key of 4096 bits costs the client little and the
//! server 1.5 ms: 700 ClientHellos per second fill a core. A worker therefore
//! lets all other tasks run between two such signatures. Its permit goes round robin
//! to the client networks that wait. A network alone may always have it.

use sekisho_gate::{Denied, Gate, Permit, Sharing};
use tokio::task::yield_now;
use tokio::time::Instant;

use crate::limits::budget::Prefix;

/// Makes the gate of a worker's slow signatures.
pub(crate) fn gate() -> Gate<Prefix> {
    Gate::new(1, Sharing::AtMost(|_| 1), MAX_WAITING)
}

/// Permit to make one slow signature, while it is taken.
#[derive(Debug)]
pub(crate) struct SigningPermit<'a> {
    gate: &'a Gate<Prefix>,
    prefix: Prefix,
    deadline: Instant,
    permit: Option<Permit<Prefix>>,
}

impl<'a> SigningPermit<'a> {
    /// Makes the permit of a client, which is not taken yet.
    pub(crate) fn new(gate: &'a Gate<Prefix>, prefix: Prefix, deadline: Instant) -> Self {
        Self {
            gate,
            prefix,
            deadline,
            permit: None,
        }
    }

    /// Gives the permit back, if it is taken, once every other task that is ready has run.
    pub(crate) async fn give_back(&mut self) {
        if self.permit.is_some() {
            yield_now().await;
            self.permit = None;
        }
    }

    /// Waits for the permit.
    ///
    /// # Errors
    /// [`Denied`], if too many wait, or the permit does not come before the
    /// deadline.
    pub(crate) async fn take(&mut self) -> Result<(), Denied> {
        let permit = self.gate.enter_until(self.prefix, self.deadline);
        self.permit = Some(permit.await?);
        Ok(())
    }
}

/// Handshakes of a worker that wait for the permit: as many as it signs in 6 s. A
/// handshake has 10 s by default.
const MAX_WAITING: usize = 4096;
