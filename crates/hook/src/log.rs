//! Log lines at a limited rate: every handshake may cause some.

use std::sync::Mutex;
use std::time::Duration;

use sekisho_certs::lock;
use tokio::time::Instant;

/// Limit of lines per second; lines beyond it are counted.
#[derive(Debug)]
pub(crate) struct LogLimit {
    each_second: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    begun: Option<Instant>,
    lines: u32,
    left_out: u64,
}

impl LogLimit {
    pub(crate) fn new(each_second: u32) -> Self {
        Self {
            each_second,
            state: Mutex::default(),
        }
    }

    /// Allows a line, and returns how many were left out before it; none if the
    /// line is left out.
    pub(crate) fn allow(&self) -> Option<u64> {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let is_old = |begun: Instant| now.duration_since(begun) >= Duration::from_secs(1);
        if state.begun.is_none_or(is_old) {
            state.begun = Some(now);
            state.lines = 0;
        }
        if state.lines >= self.each_second {
            state.left_out += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_beyond_the_rate_are_counted() {
        let limit = LogLimit::new(2);
        let allowed: Vec<_> = (0..5).map(|_| limit.allow()).collect();
        assert_eq!(allowed, [Some(0), Some(0), None, None, None]);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(limit.allow(), Some(3));
    }
}
