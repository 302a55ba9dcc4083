//! How long a CA is passed over after a failure.

use std::time::Duration;

use sekisho_certs::random;
use tokio::time::Instant;

use crate::acme::{self, Retry};

/// Failure of a CA that no success has followed.
#[derive(Debug)]
pub(super) struct Outage {
    /// Failures in a row.
    failures: u32,
    /// Time at which the CA is worth asking again.
    until: Instant,
    /// True while one order tries it.
    is_tried: bool,
    /// The last failure, without the names of the order that met it: others see it.
    pub(super) why: String,
}

impl Outage {
    /// Returns the outage after one more failure. Failures of orders that were begun
    /// before the first of them count once. No pause of ours is over `longest`.
    pub(super) fn after(
        before: Option<Self>,
        now: Instant,
        error: &acme::Error,
        longest: Duration,
    ) -> Self {
        let counted = before.as_ref().is_none_or(|outage| outage.is_over(now));
        let failures = before.as_ref().map_or(0, |outage| outage.failures);
        let failures = failures.saturating_add(counted.into());
        let begun = match before {
            Some(outage) if !counted => outage.until,
            _ => now + pause(failures).min(longest),
        };
        Self {
            failures,
            until: begun.max(now + asked_for(error)),
            is_tried: false,
            why: error.fault.to_string(),
        }
    }

    /// Tells whether a failure at this time is a further one.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.is_tried || self.until <= now
    }

    /// Tells whether the CA is worth a try. Others then wait for its outcome, in case
    /// that there is none for [`TRIAL`].
    pub(super) fn is_over_for_one(&mut self, now: Instant) -> bool {
        let is_over = self.until <= now;
        if is_over {
            self.until = now + TRIAL;
            self.is_tried = true;
        }
        is_over
    }

    /// Returns the time until the CA is asked again, or until the outcome of the order
    /// that tries it is worth a look.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        let left = self.until.saturating_duration_since(now);
        match self.is_tried {
            true => left.min(LOOK),
            false => left,
        }
    }
}

/// Tells whether the CA wants fewer requests for a while.
pub(super) fn is_busy(error: &acme::Error) -> bool {
    error.fault.status() == Some(503) && matches!(error.retry(), Retry::After(_))
}

/// Returns the pause after the n-th failure, with up to a quarter of jitter: servers
/// that met one outage don't come back at once.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let pause = SHORTEST.saturating_mul(1 << doublings).min(LONGEST);
    let [drawn] = random();
    pause + pause / 4 * u32::from(drawn) / 255
}

/// Returns the pause that the CA asks for.
fn asked_for(error: &acme::Error) -> Duration {
    match error.retry() {
        Retry::After(pause) => pause.min(LONGEST_ASKED),
        Retry::Never | Retry::Later => Duration::ZERO,
    }
}

const SHORTEST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// A CA that asks for more may have been repaired long before.
const LONGEST_ASKED: Duration = Duration::from_secs(24 * 60 * 60);
/// Time between two looks for the outcome of a try: most end within a second.
const LOOK: Duration = Duration::from_secs(5);
/// Time of an order at a CA that works.
const TRIAL: Duration = Duration::from_secs(30);
/// Time within which a second order has to meet a busy CA: orders of one outage do.
pub(super) const BUSY: Duration = Duration::from_secs(60);
