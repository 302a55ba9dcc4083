//! The wall clock as a value, so that tests move it, and readings of the monotonic clock
//! that a poll shares.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Source of the wall time. Leases, document expiry and certificate dates use
/// it; freshness and deadlines use the monotonic clock instead.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock.
    #[default]
    System,
    /// A clock that a test moves: milliseconds since the Unix epoch.
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// Returns milliseconds since the Unix epoch; negative before it.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        match self {
            Self::System => match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                Err(before) => -i64::try_from(before.duration().as_millis()).unwrap_or(i64::MAX),
            },
            Self::Manual(ms) => ms.load(Ordering::SeqCst),
        }
    }

    /// Returns seconds since the Unix epoch, rounded down.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.now_ms().div_euclid(1000)
    }
}

/// Returns the monotonic time. Within [`read_once`] all calls return the same.
#[must_use]
pub fn monotonic() -> Instant {
    READING.with(|reading| match reading.get() {
        Reading::Each => Instant::now(),
        Reading::Wanted => {
            let now = Instant::now();
            reading.set(Reading::Kept(now));
            now
        }
        Reading::Kept(at) => at,
    })
}

/// Runs a poll in which [`monotonic`] reads the clock at most once. A reading takes 40 ns on
/// some virtual machines, and a request on a kept connection needs four: when its bytes
/// came, when it ended, and for the age of its certificate and of its file.
pub fn read_once<T>(poll: impl FnOnce() -> T) -> T {
    let _outer = PutBack(READING.replace(Reading::Wanted));
    poll()
}

thread_local! {
    static READING: Cell<Reading> = const { Cell::new(Reading::Each) };
}

#[derive(Clone, Copy)]
enum Reading {
    /// Each call reads the clock.
    Each,
    /// The poll has read nothing yet.
    Wanted,
    /// Reading of this poll.
    Kept(Instant),
}

/// Puts back, at the end of a poll or when it panics, what was set before it.
struct PutBack(Reading);

impl Drop for PutBack {
    fn drop(&mut self) {
        READING.set(self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_poll_reads_the_clock_once() {
        let begun = Instant::now();
        read_once(|| {
            assert_eq!(monotonic(), begun);
            // Polled once, `advance` moves the clock.
            let moved = Box::pin(tokio::time::advance(Duration::from_secs(5)));
            let _ = futures_util::FutureExt::now_or_never(moved);
            assert_eq!(monotonic(), begun);
            assert!(Instant::now() > begun);
        });
        assert_eq!(monotonic(), Instant::now());
        assert!(monotonic() > begun);
    }

    #[tokio::test(start_paused = true)]
    async fn a_poll_that_panics_keeps_no_reading() {
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            read_once(|| {
                let _ = monotonic();
                panic!("as a bug would");
            })
        }));
        assert!(panicked.is_err());
        tokio::time::advance(Duration::from_secs(5)).await;
        assert_eq!(monotonic(), Instant::now());
    }
}
