//! Signals of a server.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

use super::message::Signal;

/// Handlers of all signals that a server knows.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    quit: tokio::signal::unix::Signal,
    hang_up: tokio::signal::unix::Signal,
    user1: tokio::signal::unix::Signal,
    user2: tokio::signal::unix::Signal,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            hang_up: signal(SignalKind::hangup())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    /// Waits for the next signal; returns its meaning and its name. Cancel-safe.
    pub(crate) async fn next(&mut self) -> (Signal, &'static str) {
        tokio::select! {
            _ = self.terminate.recv() => (Signal::Drain, "SIGTERM"),
            _ = self.interrupt.recv() => (Signal::Drain, "SIGINT"),
            _ = self.quit.recv() => (Signal::Drain, "SIGQUIT"),
            _ = self.hang_up.recv() => (Signal::Reload, "SIGHUP"),
            _ = self.user1.recv() => (Signal::ReopenLogs, "SIGUSR1"),
            _ = self.user2.recv() => (Signal::Upgrade, "SIGUSR2"),
        }
    }
}
