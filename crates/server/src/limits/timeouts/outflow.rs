//! Measures whether a client takes what is sent, by its kernel's
//! acknowledgements.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::Moment;

/// Bytes that the socket took, and the time for which it was blocked. Times are
/// milliseconds since accept.
///
/// A blocked socket does not mean a stalled client: the kernel wakes a writer
/// when a third of its buffer is free, which takes a 20 KB/s client a minute.
/// Acknowledged bytes show progress. A window is one body limit of blocked
/// time, in which the client must take [`MIN_RATE`].
#[derive(Debug, Default)]
pub(super) struct Outflow {
    /// Bytes that the socket took.
    sent: AtomicU64,
    /// Since when the socket is blocked.
    blocked: Moment,
    /// Blocked time before `blocked`.
    total: AtomicU64,
    /// Blocked time at the beginning of the window.
    window: Moment,
    /// Acknowledged bytes at the beginning of the window.
    taken: AtomicU64,
    /// The window is over: the next blocked write measures what was taken.
    asked: AtomicBool,
}

impl Outflow {
    /// Begins a request: earlier blocked time does not count.
    pub(super) fn begin(&self) {
        self.window.clear();
    }

    pub(super) fn sent(&self, bytes: usize, now: impl FnOnce() -> u64) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        if let Some(since) = self.blocked.value() {
            self.total.fetch_add(now().saturating_sub(since), Relaxed);
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

    /// Returns until when the socket may stay blocked; None if it is not
    /// blocked.
    pub(super) fn blocked_until(&self, limit: Duration) -> Option<u64> {
        let since = self.blocked.value()?;
        let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let total = self.total.load(Relaxed);
        let end = self.window.value().unwrap_or(total).saturating_add(limit);
        Some(since + end.saturating_sub(total))
    }

    /// Makes the next blocked write measure what was taken. Returns false if
    /// the last measurement found too little.
    pub(super) fn ask(&self) -> bool {
        !self.asked.swap(true, Relaxed)
    }

    /// Returns the time in which the socket was not blocked.
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

/// Bytes per second that a client must take: a tenth of a modem's rate. A
/// slower client is treated as an attack on permits and open files.
const MIN_RATE: u64 = 512;
