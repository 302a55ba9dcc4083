//! What the service manager is told (sd_notify(3)). Without `NOTIFY_SOCKET`, nobody is.

use std::env;
use std::future::pending;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Returns whether a service manager listens.
pub(crate) fn has_manager() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// Says that this process, the main one, answers requests.
pub(crate) fn ready() {
    send(&[NotifyState::Ready]);
}

/// Says that the service is ending.
pub(crate) fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Names the main process from now on.
pub(crate) fn main_pid(pid: u32) {
    send(&[NotifyState::MainPid(pid)]);
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "the service manager can't be told");
    }
}

/// Watchdog of the service manager: it ends a server that stands still.
pub(crate) struct Watchdog {
    interval: Option<Interval>,
    turns: Box<dyn FnMut() -> bool + Send>,
}

impl Watchdog {
    /// Reads the interval that the manager wants. `turns` says whether each worker has
    /// turned since its last call. `WATCHDOG_PID` is that of the first process, and says
    /// nothing in one that took over.
    pub(crate) fn new(turns: Box<dyn FnMut() -> bool + Send>) -> Self {
        let wanted = env::var("WATCHDOG_USEC").ok().filter(|_| has_manager());
        let wanted = wanted.and_then(|text| text.parse().ok());
        let interval = wanted.filter(|wanted| *wanted > 0).map(|wanted| {
            // More often than sd_watchdog_enabled(3) says: one time that is left out, by a
            // worker that turned just after it, ends nothing.
            let mut interval = interval(Duration::from_micros(wanted) / 4);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        Self { interval, turns }
    }

    /// Waits for the next time, and feeds the watchdog if each worker has turned.
    pub(crate) async fn turned(&mut self) {
        match &mut self.interval {
            Some(interval) => drop(interval.tick().await),
            None => pending().await,
        }
        if (self.turns)() {
            send(&[NotifyState::Watchdog]);
        } else {
            tracing::warn!("a worker stands still: the watchdog is not fed");
        }
    }
}
