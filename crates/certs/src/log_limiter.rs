//! Log rate limit, for problems that every handshake or request may hit.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// Rate limit of log lines; those beyond it are counted. The default passes one per 10 s.
#[derive(Debug)]
pub struct LogLimiter {
    /// Lines that pass in each stretch of `time`.
    most: u32,
    time: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Instant>,
    lines: u32,
    held: u64,
}

impl LogLimiter {
    /// Makes a limit that passes so many lines per second.
    #[must_use]
    pub fn per_second(most: u32) -> Self {
        Self::new(most, Duration::from_secs(1))
    }

    fn new(most: u32, time: Duration) -> Self {
        let state = Mutex::default();
        Self { most, time, state }
    }

    /// Returns how many lines were suppressed since the last one; None if this
    /// one is suppressed too.
    #[must_use]
    pub fn allow(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        let now = Instant::now();
        if state.begun.is_none_or(|begun| now - begun >= self.time) {
            (state.begun, state.lines) = (Some(now), 0);
        }
        if state.lines >= self.most {
            state.held += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.held))
    }
}

impl Default for LogLimiter {
    fn default() -> Self {
        Self::new(1, Duration::from_secs(10))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_in_ten_seconds() {
        let sparse = LogLimiter::default();
        assert_eq!(sparse.allow(), Some(0));
        for _ in 0..5 {
            assert_eq!(sparse.allow(), None);
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(sparse.allow(), Some(5));
    }

    #[tokio::test(start_paused = true)]
    async fn lines_beyond_the_rate_are_counted() {
        let limit = LogLimiter::per_second(2);
        let allowed: Vec<_> = (0..5).map(|_| limit.allow()).collect();
        assert_eq!(allowed, [Some(0), Some(0), None, None, None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(limit.allow(), Some(3));
    }
}
