//! Limits of a connection's state.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use super::ConnTimeouts;
use crate::limits::settings::Limits;

impl ConnTimeouts {
    /// Returns whether no request has come for `time`, and none has begun.
    pub(crate) fn has_been_idle_for(&self, time: Duration) -> bool {
        let between = !self.is_in_flight()
            && self.closed.value().is_none()
            && self.head.value().is_none()
            && !self.outflow.is_blocked()
            && !self.is_winding_down();
        let long = |idle| self.at(idle, time) <= Instant::now();
        between && self.idle.value().is_some_and(long)
    }

    /// Returns when a request was last under way, or the handshake ended; `now` while a
    /// request is. Frames and bytes between requests are no activity.
    pub(crate) fn last_active(&self, now: Instant) -> Instant {
        if self.is_in_flight() {
            return now;
        }
        self.at(self.idle.value().unwrap_or_default(), Duration::ZERO)
    }

    /// Returns when the current state reaches its limit; None while the server
    /// prepares an answer.
    pub(crate) fn due(&self, limits: &Limits) -> Option<(Instant, Due)> {
        let due = self.due_of_state(limits);
        // The drain limit also ends a client that keeps sending requests.
        let ended = self.winding_down.value();
        let limit = limits.drain.max(LINGER);
        let ended = ended.map(|began| (self.at(began, limit), Due::Drop));
        due.into_iter().chain(ended).min_by_key(|(at, _)| *at)
    }

    fn due_of_state(&self, limits: &Limits) -> Option<(Instant, Due)> {
        let has_ended = || self.held().is_some_and(|held| held.has_ended());
        if let Some(closed) = self.closed.value().filter(|_| has_ended()) {
            return Some((self.at(closed, LINGER), Due::Drop));
        }
        if let Some(blocked) = self.outflow.blocked_until(limits.body) {
            return Some((self.at(blocked, Duration::ZERO), Due::Ask));
        }
        if let Some(closed) = self.closed.value() {
            return Some((self.at(closed, LINGER), Due::Drop));
        }
        let (head, multiplexed) = (self.head.value(), self.multiplexed.load(Relaxed));
        if let Some(head) = head.filter(|_| multiplexed || !self.is_in_flight()) {
            return Some((self.at(head, limits.head), Due::Drop));
        }
        if self.is_in_flight() {
            let owed = self.flow.client_owes_body();
            let owed = owed.map(|since| since + limits.body);
            // Over HTTP/2, answers wait for windows that only the client opens.
            let waits = |_: &u64| multiplexed || self.is_at_upstream();
            let ended = self.ended.value().filter(waits);
            let ended = ended.map(|ended| self.at(ended, self.after_end().min(limits.body)));
            return Some((owed.into_iter().chain(ended).min()?, Due::Drop));
        }
        Some((self.at(self.idle.value()?, limits.idle), Due::Close))
    }
}

/// Step that is due at a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Send close_notify and close.
    Close,
    /// Ask the kernel what the client took, and drop the connection if that is
    /// too little.
    Ask,
    /// Close without close_notify: the client reads nothing.
    Drop,
}

/// How long a closed connection waits for the client's FIN. Closing earlier
/// could send a reset, which destroys data that the client has not read.
pub(crate) const LINGER: Duration = Duration::from_secs(1);
