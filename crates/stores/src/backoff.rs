//! Exponential backoff with jitter: how long to wait between attempts.

use std::time::Duration;

use sekisho_certs::random;

/// Bounds of the delays between attempts. Each delay doubles, from `min` to
/// `max`; a random share of it, at most `jitter`, is left out, so that servers
/// that lost the same peer at the same moment do not return together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// The first delay.
    pub min: Duration,
    /// The longest delay.
    pub max: Duration,
    /// From 0, for exact delays, to 1.
    pub jitter: f64,
}

impl Backoff {
    /// Takes off up to a quarter of each delay.
    #[must_use]
    pub const fn new(min: Duration, max: Duration) -> Self {
        Self {
            min,
            max,
            jitter: 0.25,
        }
    }

    /// Begins a series of attempts.
    #[must_use]
    pub const fn delays(self) -> Delays {
        Delays {
            backoff: self,
            next: self.min,
        }
    }
}

/// The delays of one series of attempts.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    backoff: Backoff,
    next: Duration,
}

impl Delays {
    /// Gives the delay before the next attempt, and doubles the one behind it.
    pub fn after_failure(&mut self) -> Duration {
        let delay = self.next.min(self.backoff.max);
        self.next = delay.saturating_mul(2).min(self.backoff.max);
        delay.mul_f64(1.0 - self.backoff.jitter.clamp(0.0, 1.0) * fraction())
    }

    /// Begins again with the shortest delay.
    pub fn after_success(&mut self) {
        self.next = self.backoff.min;
    }

    /// Tells whether no attempt has failed since the start or the last success.
    #[must_use]
    pub fn is_at_start(&self) -> bool {
        self.next == self.backoff.min
    }
}

/// Draws a number from 0 to 1.
fn fraction() -> f64 {
    f64::from(u32::from_le_bytes(random())) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(500));

    #[test]
    fn delays_double_up_to_the_longest() {
        let exact = Backoff {
            jitter: 0.0,
            ..BACKOFF
        };
        let mut delays = exact.delays();
        for wanted in [100, 200, 400, 500, 500] {
            assert_eq!(delays.after_failure(), Duration::from_millis(wanted));
            assert!(!delays.is_at_start());
        }
        delays.after_success();
        assert!(delays.is_at_start());
        assert_eq!(delays.after_failure(), Duration::from_millis(100));
    }

    #[test]
    fn jitter_spreads_a_delay_within_its_share() {
        let first: Vec<_> = (0..200).map(|_| BACKOFF.delays().after_failure()).collect();
        let [least, most] = [first.iter().min(), first.iter().max()].map(Option::unwrap);
        assert!(*least >= Duration::from_millis(75), "{least:?}");
        assert!(*most <= Duration::from_millis(100), "{most:?}");
        // Two hundred of them in a fifth of the range: one in 10^40.
        assert!(*most - *least > Duration::from_millis(5));
    }

    #[test]
    fn the_longest_delay_bounds_the_first_one() {
        let backoff = Backoff {
            min: Duration::MAX,
            max: Duration::from_secs(1),
            jitter: 0.0,
        };
        assert_eq!(backoff.delays().after_failure(), Duration::from_secs(1));
    }
}
