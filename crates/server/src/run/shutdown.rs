//! Graceful shutdown: serving, draining, ending.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Phase of a server's shutdown; it only moves forward.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepting and serving.
    #[default]
    Serving,
    /// Accepting no connections; open ones end after their requests in flight.
    Draining,
    /// Cutting off the connections that are still open.
    Ending,
}

/// Handle that moves a server through its shutdown phases.
#[derive(Clone, Debug, Default)]
pub struct Shutdown(watch::Sender<Phase>);

impl Shutdown {
    /// Begins in phase [`Phase::Serving`].
    #[must_use]
    pub fn new() -> Self {
        Self::default()
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

    /// Drains at the first SIGTERM, SIGINT or SIGQUIT, ends at the second.
    /// SIGUSR1 calls `reopen`, if there is a log to open again. SIGHUP and
    /// SIGUSR2, which make other servers reload, are logged and change nothing.
    ///
    /// # Errors
    /// If a signal handler can't be installed.
    pub fn on_signals<F: Fn() + Send>(
        &self,
        reopen: Option<F>,
    ) -> io::Result<impl Future<Output = ()> + Send + use<F>> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut user1 = signal(SignalKind::user_defined1())?;
        let mut user2 = signal(SignalKind::user_defined2())?;
        let shutdown = self.clone();
        Ok(async move {
            let phases = [(Phase::Draining, "draining"), (Phase::Ending, "ending")];
            let mut phases = phases.into_iter();
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                    _ = quit.recv() => "SIGQUIT",
                    _ = hang_up.recv() => { ignore("SIGHUP"); continue }
                    _ = user1.recv() => {
                        match &reopen {
                            Some(reopen) => reopen(),
                            None => ignore("SIGUSR1"),
                        }
                        continue;
                    }
                    _ = user2.recv() => { ignore("SIGUSR2"); continue }
                };
                let Some((phase, word)) = phases.next() else {
                    return;
                };
                tracing::info!("{name}: {word}");
                shutdown.advance(phase);
            }
        })
    }

    fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let forward = phase > *now;
            *now = phase.max(*now);
            forward
        });
    }
}

fn ignore(signal: &str) {
    tracing::warn!(
        signal,
        "signal ignored: the configuration is read at the start alone, restart to apply it"
    );
}
