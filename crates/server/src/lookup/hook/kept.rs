//! State of the hook that a connection keeps, with its choices.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::HostName;
use sekisho_certs::hook::ClientFacts;
use tokio::time::Instant;

/// State of a connection whose handshake asked the hook.
pub(crate) struct Hooked {
    pub(crate) facts: Arc<ClientFacts>,
    /// The listening address as configured, whose default may be chosen.
    pub(crate) listen: SocketAddr,
}

/// Choice for one name.
#[derive(Clone)]
pub(crate) struct Kept {
    /// The name that was looked up; none for a certificate that the hook gave.
    pub(crate) host: Option<HostName>,
    /// Until when the choice holds, if the record is unchanged.
    until: Instant,
    /// Failures of the hook since it chose this.
    failures: u32,
}

impl Kept {
    pub(super) fn new(host: Option<HostName>, until: Instant) -> Self {
        Self {
            host,
            until,
            failures: 0,
        }
    }

    /// Returns whether the choice has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.until <= Instant::now()
    }

    /// Prolongs the choice, since the hook failed: a run that hangs takes all of its time,
    /// and requests wait for it.
    pub(crate) fn prolong(&mut self) {
        self.until = Instant::now() + served_on(self.failures);
        self.failures = self.failures.saturating_add(1);
    }
}

/// Returns the time until a hook is asked again that had failed so often before: at first
/// 1 s.
fn served_on(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(10)).min(LONGEST)
}

const FIRST: Duration = Duration::from_secs(1);
/// A hook that works again is asked within a minute.
const LONGEST: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_that_fails_again_is_asked_less_often() {
        let seconds = [0, 1, 2, 5, 6, u32::MAX].map(|failures| served_on(failures).as_secs());
        assert_eq!(seconds, [1, 2, 4, 32, 60, 60]);
    }
}
