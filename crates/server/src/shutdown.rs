//! Ending in order.

use std::future::Future;
use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How far the end has come. It only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Accepting and serving.
    Serving,
    /// No new connections; those that are open end after what they are at.
    Draining,
    /// What is still open is cut off.
    Ending,
}

/// Moves a server towards its end.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Sender<Phase>);

impl Shutdown {
    /// A server that serves.
    #[must_use]
    pub fn new() -> Self {
        Self(watch::Sender::new(Phase::Serving))
    }

    /// Stops accepting and lets open connections end.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Cuts off what is open.
    pub fn end(&self) {
        self.advance(Phase::Ending);
    }

    /// The present phase; `/readyz` tells it to balancers.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Resolves once the phase is at least that one.
    pub async fn reached(&self, phase: Phase) {
        let mut phases = self.0.subscribe();
        // The sender lives as long as `self`.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// Drains at the first SIGTERM, SIGINT or SIGQUIT, ends at the second.
    /// SIGHUP, SIGUSR1 and SIGUSR2, which other servers reload or reopen logs
    /// at, are logged and change nothing.
    ///
    /// # Errors
    /// If the signals can't be listened to.
    pub fn on_signals(&self) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut quit = signal(SignalKind::quit())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let mut user1 = signal(SignalKind::user_defined1())?;
        let mut user2 = signal(SignalKind::user_defined2())?;
        let shutdown = self.clone();
        Ok(async move {
            let mut phases = [Phase::Draining, Phase::Ending].into_iter();
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                    _ = quit.recv() => "SIGQUIT",
                    _ = hang_up.recv() => { ignore("SIGHUP"); continue }
                    _ = user1.recv() => { ignore("SIGUSR1"); continue }
                    _ = user2.recv() => { ignore("SIGUSR2"); continue }
                };
                let Some(phase) = phases.next() else { return };
                tracing::info!("{name}: {}", phase.as_str());
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

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Self::Serving => "serving",
            Self::Draining => "draining",
            Self::Ending => "ending",
        }
    }
}
