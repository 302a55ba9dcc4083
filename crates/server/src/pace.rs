//! How long a connection may stay as it is.
//!
//! The stream and the requests note what happens, without timers of their
//! own; the one timer of the connection looks here when it fires. A request on
//! a kept-alive connection so costs no timer at all.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

/// The limits that a connection is held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// From a request's first byte to the end of its head.
    pub(crate) head: Duration,
    /// Without a request.
    pub(crate) idle: Duration,
    /// Without progress while a body is read or an answer written.
    pub(crate) body: Duration,
}

/// What a connection is doing, and since when.
#[derive(Debug)]
pub(crate) struct Pace {
    start: Instant,
    in_flight: AtomicU32,
    /// Of these, requests whose body was not there yet at their beginning.
    reading: AtomicU32,
    /// Answers that have more to hand out once the client takes it.
    untaken: AtomicU32,
    multiplexed: AtomicBool,
    impatient: AtomicBool,
    closing_soon: AtomicBool,
    exhausted: AtomicBool,
    begun: AtomicBool,
    winding_down: AtomicBool,
    idle: Mark,
    head: Mark,
    read: Mark,
    taken: Mark,
    blocked: Mark,
    closed: Mark,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            in_flight: AtomicU32::new(0),
            reading: AtomicU32::new(0),
            untaken: AtomicU32::new(0),
            multiplexed: AtomicBool::new(false),
            impatient: AtomicBool::new(false),
            closing_soon: AtomicBool::new(false),
            exhausted: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            winding_down: AtomicBool::new(false),
            idle: Mark::default(),
            head: Mark::default(),
            read: Mark::default(),
            taken: Mark::default(),
            blocked: Mark::default(),
            closed: Mark::default(),
        }
    }

    /// The handshake is done. On a multiplexed connection bytes between
    /// requests do not begin a head: they may be pings.
    pub(crate) fn established(&self, multiplexed: bool) {
        self.multiplexed.store(multiplexed, Relaxed);
        self.idle.set(self.now());
    }

    /// The client sent something. On a multiplexed connection that is no
    /// progress of a request: it may be a ping.
    pub(crate) fn read(&self) {
        if self.multiplexed.load(Relaxed) {
            return;
        }
        let now = self.now();
        self.read.set(now);
        if !self.is_in_flight() {
            self.head.set_once(now);
        }
    }

    /// The client took something.
    pub(crate) fn unblocked(&self) {
        self.blocked.clear();
    }

    /// The client takes nothing.
    pub(crate) fn blocked(&self) {
        self.blocked.set_once(self.now());
    }

    /// A request's head is complete.
    pub(crate) fn begin(&self, has_body: bool) {
        self.head.clear();
        self.closed.clear();
        self.begun.store(true, Relaxed);
        self.in_flight.fetch_add(1, Relaxed);
        if has_body {
            self.read.set(self.now());
            self.reading.fetch_add(1, Relaxed);
        }
    }

    /// It is answered, whether its body came or not.
    pub(crate) fn answered(&self, has_body: bool) {
        self.reading.fetch_sub(u32::from(has_body), Relaxed);
    }

    /// An answer waits until the client has room for more of it.
    pub(crate) fn offer(&self) {
        self.taken.set(self.now());
        self.untaken.fetch_add(1, Relaxed);
    }

    /// It has room, or the answer waits no longer.
    pub(crate) fn take(&self) {
        self.taken.set(self.now());
        self.untaken.fetch_sub(1, Relaxed);
    }

    /// An answer is complete or given up.
    pub(crate) fn end(&self) {
        if self.in_flight.fetch_sub(1, Relaxed) == 1 {
            self.head.clear();
            self.idle.set(self.now());
        }
    }

    /// Whether an answer is awaited.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.load(Relaxed) > 0
    }

    /// Nobody sends anything more after this answer: it may wait for
    /// close_notify if it is `small`.
    pub(crate) fn last(&self, small: bool) {
        self.exhausted.store(true, Relaxed);
        self.closing_soon.store(small, Relaxed);
    }

    pub(crate) fn is_closing_soon(&self) -> bool {
        self.closing_soon.load(Relaxed)
    }

    /// Whether the client has said all that it will.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Relaxed)
    }

    /// What waits for something to ride with waits no longer.
    pub(crate) fn be_impatient(&self) {
        self.impatient.store(true, Relaxed);
    }

    pub(crate) fn is_impatient(&self) -> bool {
        self.impatient.load(Relaxed)
    }

    /// Whether there was a request.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// The connection ends after the requests that are in flight.
    pub(crate) fn wind_down(&self) {
        self.winding_down.store(true, Relaxed);
    }

    pub(crate) fn is_winding_down(&self) -> bool {
        self.winding_down.load(Relaxed)
    }

    /// Our side is being closed.
    pub(crate) fn close(&self) {
        self.closed.set_once(self.now());
    }

    /// The same, if no request is in flight.
    pub(crate) fn close_if_idle(&self) {
        if !self.is_in_flight() {
            self.close();
        }
    }

    /// When the connection has stayed as it is for too long; none while the
    /// next step is ours.
    pub(crate) fn due(&self, limits: &Limits) -> Option<(Instant, Due)> {
        if let Some(closed) = self.closed.value() {
            return Some((self.at(closed, LINGER), Due::Drop));
        }
        if let Some(blocked) = self.blocked.value() {
            return Some((self.at(blocked, limits.body), Due::Drop));
        }
        if self.is_in_flight() {
            let read = self.read.value().filter(|_| self.reading.load(Relaxed) > 0);
            let taken = self.taken.value();
            let taken = taken.filter(|_| self.untaken.load(Relaxed) > 0);
            let first = read.into_iter().chain(taken).min()?;
            return Some((self.at(first, limits.body), Due::Drop));
        }
        let head = self.head.value();
        if let Some(head) = head.filter(|_| !self.multiplexed.load(Relaxed)) {
            return Some((self.at(head, limits.head), Due::Drop));
        }
        Some((self.at(self.idle.value()?, limits.idle), Due::Close))
    }

    fn at(&self, mark: u64, limit: Duration) -> Instant {
        self.start + Duration::from_millis(mark) + limit
    }

    /// Milliseconds of this connection's life.
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// Say goodbye and close.
    Close,
    /// Close without a word: nobody listens.
    Drop,
}

/// A moment, or none.
#[derive(Debug, Default)]
struct Mark(AtomicU64);

impl Mark {
    fn set(&self, ms: u64) {
        self.0.store(ms + 1, Relaxed);
    }

    fn set_once(&self, ms: u64) {
        if self.0.load(Relaxed) == 0 {
            self.set(ms);
        }
    }

    fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    fn value(&self) -> Option<u64> {
        self.0.load(Relaxed).checked_sub(1)
    }
}

/// How long a closed connection waits for the client's end of it, so that a
/// reset does not destroy what it has not read yet.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        head: Duration::from_secs(10),
        idle: Duration::from_secs(60),
        body: Duration::from_secs(30),
    };

    async fn due_in(pace: &Pace) -> Option<(u64, Due)> {
        let (at, due) = pace.due(&LIMITS)?;
        Some(((at - Instant::now()).as_secs(), due))
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_has_its_limit() {
        let pace = Pace::new();
        pace.established(false);
        assert_eq!(due_in(&pace).await, Some((60, Due::Close)));
        tokio::time::advance(Duration::from_secs(5)).await;
        pace.read();
        assert_eq!(due_in(&pace).await, Some((10, Due::Drop)));
        tokio::time::advance(Duration::from_secs(5)).await;
        pace.read();
        assert_eq!(due_in(&pace).await, Some((5, Due::Drop)), "dribbling");
        pace.begin(false);
        assert_eq!(due_in(&pace).await, None, "the next step is ours");
        pace.blocked();
        assert_eq!(due_in(&pace).await, Some((30, Due::Drop)));
        tokio::time::advance(Duration::from_secs(29)).await;
        pace.unblocked();
        pace.end();
        assert_eq!(due_in(&pace).await, Some((60, Due::Close)));
        pace.begin(true);
        pace.read();
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(due_in(&pace).await, Some((20, Due::Drop)), "a body");
        pace.answered(true);
        assert_eq!(due_in(&pace).await, None, "the answer is ours");
        pace.offer();
        pace.offer();
        tokio::time::advance(Duration::from_secs(10)).await;
        pace.take();
        assert_eq!(due_in(&pace).await, Some((30, Due::Drop)), "the other one");
        pace.take();
        assert_eq!(due_in(&pace).await, None, "we read on");
        pace.end();
        pace.close();
        assert_eq!(due_in(&pace).await, Some((1, Due::Drop)));
    }

    #[tokio::test(start_paused = true)]
    async fn pings_keep_no_connection() {
        let pace = Pace::new();
        pace.established(true);
        tokio::time::advance(Duration::from_secs(50)).await;
        pace.read();
        assert_eq!(due_in(&pace).await, Some((10, Due::Close)));
        pace.begin(true);
        tokio::time::advance(Duration::from_secs(20)).await;
        pace.read();
        assert_eq!(due_in(&pace).await, Some((10, Due::Drop)), "nor a body");
    }
}
