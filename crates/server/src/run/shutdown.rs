//! Graceful shutdown: serving, leaving, draining, ending.

use tokio::sync::watch;

/// Phase of a server's shutdown; it only moves forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepting and serving.
    #[default]
    Serving,
    /// Accepting no connections, since another process does; open ones end with their
    /// next answer, for as long as that takes.
    Leaving,
    /// Accepting no connections; open ones end after their requests in flight, within
    /// the drain limit.
    Draining,
    /// Cutting off the connections that are still open.
    Ending,
}

/// Handle that moves a server through its shutdown phases, from [`Phase::Serving`] on.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(watch::Sender<Phase>);

impl Shutdown {
    /// Leaves new connections to another process, and lets open ones end in their time.
    pub fn leave(&self) {
        self.advance(Phase::Leaving);
    }

    /// Stops accepting and lets open connections end.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Cuts off open connections.
    pub fn end(&self) {
        self.advance(Phase::Ending);
    }

    /// Returns the current phase; `/readyz` reports it to load balancers.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Resolves once the phase is `phase` or a later one.
    pub async fn reached(&self, phase: Phase) {
        let mut phases = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let forward = phase > *now;
            *now = phase.max(*now);
            forward
        });
    }
}
