//! Log rate limit, for problems that every handshake or request may hit.

use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock;

/// Rate limit that passes one line per 10 s.
#[derive(Debug, Default)]
pub struct LogLimiter(Mutex<Option<(Instant, u64)>>);

impl LogLimiter {
    /// Returns how many lines were suppressed since the last one; None if this
    /// one is suppressed too.
    #[must_use]
    pub fn allow(&self) -> Option<u64> {
        let mut state = lock(&self.0);
        let now = Instant::now();
        match &mut *state {
            Some((last, held)) if now - *last < INTERVAL => {
                *held += 1;
                None
            }
            state => {
                let held = state.map_or(0, |(_, held)| held);
                *state = Some((now, 0));
                Some(held)
            }
        }
    }
}

const INTERVAL: Duration = Duration::from_secs(10);

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
        tokio::time::advance(INTERVAL).await;
        assert_eq!(sparse.allow(), Some(5));
    }
}
