//! Whether a client takes what is sent, as its kernel confirms it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Mark;

/// What the socket took, and how long it took nothing. Times are milliseconds
/// of the connection.
///
/// A socket that takes nothing says little: the kernel wakes a writer when a
/// third of its buffer is free, for a client of 20 KB/s a minute later. What
/// the client's kernel acknowledged tells. A window is one limit's length of
/// blocked time; in each the client must take [`MIN_RATE`].
#[derive(Debug, Default)]
pub(super) struct Outflow {
    /// Bytes that the socket took.
    sent: AtomicU64,
    /// Since when it takes nothing.
    blocked: Mark,
    /// All blocked time before that.
    total: AtomicU64,
    /// Blocked time at the beginning of the window.
    window: Mark,
    /// Acknowledged bytes at the beginning of the window.
    taken: AtomicU64,
    /// The window is over, and the next blocked write says what was taken.
    asked: AtomicBool,
}

impl Outflow {
    /// A request begins: what came before does not count.
    pub(super) fn begin(&self) {
        self.window.clear();
    }

    pub(super) fn sent(&self, bytes: usize, now: u64) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        if let Some(since) = self.blocked.value() {
            self.total.fetch_add(now.saturating_sub(since), Relaxed);
            self.blocked.clear();
        }
    }

    pub(super) fn blocked(&self, now: u64, unacknowledged: impl FnOnce() -> u64) {
        self.blocked.set_once(now);
        let asked = self.asked.load(Relaxed);
        let window = self.window.value();
        if window.is_some() && !asked {
            return;
        }
        let total = self.total(now);
        let taken = self.sent.load(Relaxed).saturating_sub(unacknowledged());
        let length = total - window.unwrap_or(total);
        let least = length.saturating_mul(MIN_RATE) / 1000;
        if taken.saturating_sub(self.taken.load(Relaxed)) >= least {
            self.window.set(total);
            self.taken.store(taken, Relaxed);
            self.asked.store(false, Relaxed);
        }
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.blocked.value().is_some()
    }

    /// Until when the socket may take nothing, if it takes nothing.
    pub(super) fn blocked_until(&self, limit: Duration) -> Option<u64> {
        let since = self.blocked.value()?;
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let total = self.total.load(Relaxed);
        let end = self.window.value().unwrap_or(total).saturating_add(limit);
        Some(since + end.saturating_sub(total))
    }

    /// Has the next blocked write say what was taken. False if one was asked
    /// before, and the client has taken too little.
    pub(super) fn ask(&self) -> bool {
        !self.asked.swap(true, Relaxed)
    }

    /// The time in which the socket took what there was.
    pub(super) fn flowing(&self, now: u64) -> u64 {
        now.saturating_sub(self.total(now))
    }

    fn total(&self, now: u64) -> u64 {
        let blocked = self
            .blocked
            .value()
            .map_or(0, |since| now.saturating_sub(since));
        self.total.load(Relaxed) + blocked
    }
}

/// Bytes per second that a client must take: a tenth of a modem's. A client
/// that takes less holds its place, and an open file, for their own sake.
const MIN_RATE: u64 = 512;
