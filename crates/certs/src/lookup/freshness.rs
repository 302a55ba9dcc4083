//! For how long an answer needs no second look.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// While a change feed vouches for the cache, answers need no time limit;
/// without one, or while it is broken, they have one.
#[derive(Debug)]
pub(super) struct Freshness {
    start: Instant,
    fresh: u64,
    absent: u64,
    feed: AtomicU8,
    /// When the feed broke, microseconds since `start`.
    broken_at: AtomicU64,
}

/// How old an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// Serve it.
    Fresh,
    /// Serve it, and read again in the background.
    Refresh,
    /// Read again first; serve it only if that fails. While the store is known
    /// to be out of reach, this is [`Age::Refresh`].
    Stale,
}

/// The state of the change feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FeedState {
    /// There is none: a plain store.
    None,
    /// Each change arrives.
    Healthy,
    /// Changes may be missing.
    Broken,
}

impl Freshness {
    pub(super) fn new(fresh: Duration, absent: Duration) -> Self {
        Self {
            start: Instant::now(),
            fresh: micros(fresh),
            absent: micros(absent),
            feed: AtomicU8::new(FeedState::None as u8),
            broken_at: AtomicU64::new(0),
        }
    }

    pub(super) fn age(&self, fresh_until: u64) -> Age {
        if self.feed() == FeedState::Healthy {
            return Age::Fresh;
        }
        let until = self.until(fresh_until, self.fresh);
        match self.now() {
            now if now < until => Age::Fresh,
            now if now < until.saturating_add(self.fresh) => Age::Refresh,
            _ => Age::Stale,
        }
    }

    pub(super) fn absence_holds(&self, fresh_until: u64) -> bool {
        self.feed() == FeedState::Healthy || self.now() < self.until(fresh_until, self.absent)
    }

    /// Whether the store has failed so recently that it is not asked again.
    pub(super) fn is_in_respite(&self, respite_until: &AtomicU64) -> bool {
        match respite_until.load(Ordering::Relaxed) {
            0 => false,
            until => self.now() < until,
        }
    }

    /// Until when what is read now is fresh; a store may say otherwise.
    pub(super) fn record(&self, said: Option<Duration>) -> u64 {
        self.now().saturating_add(said.map_or(self.fresh, micros))
    }

    /// The same for an absence.
    pub(super) fn absence(&self) -> u64 {
        self.now().saturating_add(self.absent)
    }

    /// For how long a stale answer is served before the store is tried again.
    pub(super) fn respite(&self) -> u64 {
        self.now().saturating_add(micros(RESPITE))
    }

    pub(super) fn feed(&self) -> FeedState {
        match self.feed.load(Ordering::Acquire) {
            0 => FeedState::None,
            1 => FeedState::Healthy,
            _ => FeedState::Broken,
        }
    }

    pub(super) fn set_feed(&self, state: FeedState) {
        // The time first: who sees the feed broken counts from it.
        if state == FeedState::Broken && self.feed() == FeedState::Healthy {
            self.broken_at.store(self.now(), Ordering::Release);
        }
        self.feed.store(state as u8, Ordering::Release);
    }

    /// Up to when the feed broke it vouched for everything: counting starts
    /// there.
    fn until(&self, fresh_until: u64, time: u64) -> u64 {
        match self.feed() {
            FeedState::Broken => {
                fresh_until.max(self.broken_at.load(Ordering::Acquire).saturating_add(time))
            }
            _ => fresh_until,
        }
    }

    fn now(&self) -> u64 {
        micros(self.start.elapsed())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Keeps a store that fails from being asked by every handshake, and still
/// notices quickly that it is back.
const RESPITE: Duration = Duration::from_secs(1);
