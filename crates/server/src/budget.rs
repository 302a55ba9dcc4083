//! What one neighbourhood of clients may ask of the store.
//!
//! A name that is not cached costs a call to the store. Two things bound how
//! much of that one client prefix gets: absences are charged to a budget of
//! its own, and calls in flight are handed out in turn to the prefixes that
//! wait.

mod absences;
mod calls;

use std::net::IpAddr;
use std::sync::Arc;

use crate::config::Limits;
use absences::Absences;
use calls::{Call, Calls};

/// Gives out the right to ask the store.
#[derive(Debug)]
pub(crate) struct Budget {
    absences: Arc<Absences>,
    calls: Arc<Calls>,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            absences: Arc::new(Absences::new(limits.prefix_absent_budget)),
            calls: Arc::new(Calls::new(
                limits.loads,
                limits.prefix_in_flight,
                limits.loads_waiting,
            )),
        }
    }

    /// The right to make one call, kept until the permit is dropped. Waits its
    /// turn; the caller sets the deadline.
    ///
    /// # Errors
    /// At once, if the prefix is over its budget or too much waits already.
    pub(crate) async fn admit(&self, prefix: Prefix) -> Result<Permit, Denied> {
        if !self.absences.take(prefix) {
            return Err(Denied::OverBudget);
        }
        let mut permit = Permit {
            absences: Arc::clone(&self.absences),
            prefix,
            absent: false,
            _call: None,
        };
        permit._call = Some(Calls::enter(&self.calls, prefix).await?);
        Ok(permit)
    }
}

/// The right to make one call.
#[derive(Debug)]
pub(crate) struct Permit {
    absences: Arc<Absences>,
    prefix: Prefix,
    absent: bool,
    _call: Option<Call>,
}

impl Permit {
    /// The name was absent: it stays charged.
    pub(crate) fn was_absent(mut self) {
        self.absent = true;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.absent {
            self.absences.give_back(self.prefix);
        }
    }
}

/// Why there is no permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The prefix asked for too many names that are not here.
    OverBudget,
    /// As many calls as may wait are waiting.
    Full,
}

/// A client's neighbourhood: /24 of IPv4, /56 of IPv6. What an attacker gets
/// without effort, and what one household or office has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefix(u64);

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            // The top byte tells the families apart; no IPv6 /56 uses it.
            IpAddr::V4(v4) => Self(u64::from(v4.to_bits() >> 8) | V4),
            IpAddr::V6(v6) => {
                let top = u64::try_from(v6.to_bits() >> 72).expect("56 bits are left");
                Self(top)
            }
        }
    }
}

const V4: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    fn budget(absent: usize, loads: usize, per_prefix: usize, waiting: usize) -> Budget {
        Budget {
            absences: Arc::new(Absences::new(absent)),
            calls: Arc::new(Calls::new(loads, per_prefix, waiting)),
        }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn a_prefix_is_a_neighbourhood() {
        assert_eq!(prefix("192.0.2.1"), prefix("192.0.2.254"));
        assert_ne!(prefix("192.0.2.1"), prefix("192.0.3.1"));
        assert_eq!(prefix("192.0.2.1"), prefix("::ffff:192.0.2.9"));
        assert_eq!(prefix("2001:db8:0:aa00::1"), prefix("2001:db8:0:aaff::1"));
        assert_ne!(prefix("2001:db8:0:aa00::1"), prefix("2001:db8:0:ab00::1"));
        assert_ne!(prefix("0.0.0.1"), prefix("::1"));
    }

    #[tokio::test(start_paused = true)]
    async fn absences_are_charged_and_the_rest_is_not() {
        let budget = budget(3, 256, 64, 4096);
        let (attacker, other) = (prefix("192.0.2.1"), prefix("198.51.100.1"));
        for _ in 0..100 {
            drop(budget.admit(attacker).await.unwrap());
        }
        for _ in 0..3 {
            budget.admit(attacker).await.unwrap().was_absent();
        }
        assert_eq!(
            budget.admit(attacker).await.unwrap_err(),
            Denied::OverBudget
        );
        assert!(budget.admit(other).await.is_ok());
        tokio::time::advance(Duration::from_secs(20)).await;
        budget.admit(attacker).await.unwrap().was_absent();
        assert!(budget.admit(attacker).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_keeps_nobody_elses_turn() {
        let budget = budget(600, 2, 1, 48);
        let (crowd, other) = (prefix("192.0.2.1"), prefix("198.51.100.1"));
        // Idle permits may all go to one prefix.
        let first = budget.admit(crowd).await.unwrap();
        let _second = budget.admit(crowd).await.unwrap();
        let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(budget.admit(crowd))).collect();
        for wait in &mut waiting {
            assert!(poll(wait.as_mut()).is_pending());
        }
        assert_eq!(budget.admit(crowd).await.unwrap_err(), Denied::Full);
        let mut others = Box::pin(budget.admit(other));
        assert!(poll(others.as_mut()).is_pending());
        drop(first);
        assert!(
            poll(others.as_mut()).is_ready(),
            "the crowd has its share, so the other prefix comes first"
        );
        let next = poll(waiting[0].as_mut());
        assert!(next.is_ready(), "then the crowd, since nobody else waits");
    }
}
