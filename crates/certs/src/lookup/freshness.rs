//! How long a cached answer may be served without a new read.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::clock;
use crate::seal::OpenKey;
use crate::store::{self, Answer, FeedState, StoreError};

/// Time limits of cached answers. They hold without a change feed and while it
/// is broken; a healthy feed needs none.
#[derive(Debug)]
pub(super) struct Freshness {
    start: Instant,
    fresh: u64,
    absent: u64,
    /// The last reported state; [`Self::feed`] adds its age.
    feed: AtomicU8,
    /// When the feed last succeeded, microseconds since `start`. Written
    /// before `feed` is released, so a reader of `Healthy` sees its time.
    vouched_at: AtomicU64,
    /// True if the last store call reached the store. Relaxed suffices: the
    /// flag guards no other data.
    store_available: AtomicBool,
}

/// Age of a cached answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Serve it.
    Fresh,
    /// Serve it, and read again in the background.
    Refresh,
    /// Read again first, and serve it only if that fails.
    Stale,
}

impl Freshness {
    pub(super) fn new(fresh: Duration, absent: Duration) -> Self {
        Self {
            start: Instant::now(),
            fresh: micros(fresh),
            absent: micros(absent),
            feed: AtomicU8::new(FeedState::None as u8),
            vouched_at: AtomicU64::new(0),
            store_available: AtomicBool::new(true),
        }
    }

    /// Judges an answer at `now`, a reading that the caller shares with other uses.
    pub(super) fn age(&self, fresh_until: u64, now: u64) -> Age {
        if self.feed_at(now) == FeedState::Healthy {
            return Age::Fresh;
        }
        let until = self.until(fresh_until, self.fresh, now);
        match now {
            now if now < until => Age::Fresh,
            now if now < until.saturating_add(self.fresh) => Age::Refresh,
            // A read would most likely fail, too, and every lookup until then
            // would wait for the store's deadline.
            _ if !self.store_available() => Age::Refresh,
            _ => Age::Stale,
        }
    }

    /// Returns false if the last store call found the store unavailable, late
    /// or overloaded, even if a copy answered in its place.
    pub(super) fn store_available(&self) -> bool {
        self.store_available.load(Ordering::Relaxed)
    }

    /// Judges by the answer of a store call whether the store is available.
    pub(super) fn asked(&self, answer: &store::Result<Answer<OpenKey>>) {
        let available = match answer {
            Ok(answer) => !answer.is_stale,
            // The store answers other calls.
            Err(StoreError::Failed(_)) => true,
            Err(error) => !error.is_retryable(),
        };
        // Mostly unchanged: a read leaves the cache line shared by all cores.
        if self.store_available() != available {
            self.store_available.store(available, Ordering::Relaxed);
        }
    }

    /// Tells whether an absence still holds. One with an end of its own, see
    /// [`Self::end_of`], holds no longer than that.
    pub(super) fn absence_holds(&self, fresh_until: u64, ends: u64) -> bool {
        let now = self.now();
        now < ends
            && (self.feed_at(now) == FeedState::Healthy
                || now < self.until(fresh_until, self.absent, now))
    }

    /// Returns until when a record read now is fresh; `fresh_for` is what its
    /// store grants.
    pub(super) fn record(&self, fresh_for: Option<Duration>) -> u64 {
        self.now()
            .saturating_add(fresh_for.map_or(self.fresh, micros))
    }

    /// Returns until when an absence read now is fresh.
    pub(super) fn absence(&self) -> u64 {
        self.now().saturating_add(self.absent)
    }

    /// Returns the end of a note that begins now and holds for `time`; `u64::MAX`
    /// for none.
    pub(super) fn end_of(&self, time: Option<Duration>) -> u64 {
        time.map_or(u64::MAX, |time| self.now().saturating_add(micros(time)))
    }

    /// Returns when the store is asked again after a read that fails now.
    pub(super) fn retry_at(&self) -> u64 {
        self.now().saturating_add(micros(RETRY_DELAY))
    }

    /// Returns the reported state. A `Healthy` older than [`FEED_TIMEOUT`]
    /// counts as `Broken`: a feed whose task ended or hangs can't report that
    /// itself.
    pub(super) fn feed(&self) -> FeedState {
        self.feed_at(self.now())
    }

    fn feed_at(&self, now: u64) -> FeedState {
        match self.feed.load(Ordering::Acquire) {
            0 => FeedState::None,
            1 if now < self.vouched_until() => FeedState::Healthy,
            _ => FeedState::Broken,
        }
    }

    /// Notes the feed's state. A feed that recovers was answered by the store:
    /// the store counts as available before the next lookup asks it.
    pub(super) fn set_feed(&self, state: FeedState) {
        if state == FeedState::Healthy {
            self.vouched_at.store(self.now(), Ordering::Relaxed);
        }
        let before = self.feed.swap(state as u8, Ordering::AcqRel);
        if before == FeedState::Broken as u8 && state == FeedState::Healthy {
            self.store_available.store(true, Ordering::Relaxed);
        }
    }

    /// Extends `fresh_until` while the feed is broken: up to its last success
    /// the feed vouched for everything, so `time` counts from there.
    fn until(&self, fresh_until: u64, time: u64, now: u64) -> u64 {
        match self.feed_at(now) {
            FeedState::Broken => {
                fresh_until.max(self.vouched_at.load(Ordering::Relaxed).saturating_add(time))
            }
            _ => fresh_until,
        }
    }

    fn vouched_until(&self) -> u64 {
        let vouched_at = self.vouched_at.load(Ordering::Relaxed);
        vouched_at.saturating_add(micros(FEED_TIMEOUT))
    }

    /// Returns microseconds of the lookup's time.
    pub(super) fn now(&self) -> u64 {
        micros(clock::monotonic() - self.start)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Bounds the calls for one host to a store that fails: one per second, instead
/// of one per handshake.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);
/// A feed reports success every second. Ten missed reports are no hiccup, and
/// bound for how long a change may go unnoticed.
const FEED_TIMEOUT: Duration = Duration::from_secs(10);
