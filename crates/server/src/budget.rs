//! What one neighbourhood of clients may ask of the store.
//!
//! A name that is not cached costs a call to the store. Two things bound how
//! much of that one client prefix gets: absences are charged to a budget of
//! its own, and calls in flight are handed out in turn to the prefixes that
//! wait.

mod absences;
mod calls;
mod over;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use tokio::time::Instant;

use crate::settings::Limits;
use absences::Absences;
pub(crate) use calls::{Call, Calls};
use over::Over;

/// Gives out the right to ask the store.
#[derive(Debug)]
pub(crate) struct Budget {
    absences: Arc<Absences>,
    over: Over,
    calls: Arc<Calls>,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            absences: Arc::new(Absences::new(limits.prefix_absent_budget)),
            over: Over::default(),
            calls: Arc::new(Calls::new(
                limits.loads,
                limits.prefix_in_flight,
                limits.loads_waiting,
            )),
        }
    }

    /// The right to make one call, kept until the permit is dropped. Waits its
    /// turn; the caller gives up at `deadline`. Over its budget, a prefix waits
    /// for what the budget regains: names that exist cost nothing, so that they
    /// still get through, slowed down.
    ///
    /// # Errors
    /// [`Denied`], if too many of the prefix, or of all, wait already, or if the
    /// budget regains too little before the deadline.
    pub(crate) async fn admit(&self, prefix: Prefix, deadline: Instant) -> Result<Permit, Denied> {
        if !self.absences.take(prefix) {
            let waiting = self.over.enter(prefix, deadline)?;
            while !self.absences.take(prefix) {
                waiting.pause().await?;
            }
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
    /// The prefix asked for too many names that are not here, and too many of
    /// its clients wait, or waited too long.
    OverBudget,
    /// As many calls as may wait are waiting.
    Full,
}

/// A client's neighbourhood: /24 of IPv4, /56 of IPv6. What an attacker gets
/// without effort, and what one household or office has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Prefix(u64);

impl Prefix {
    /// The wider neighbourhood: /16 of IPv4, /48 of IPv6. What a provider gives
    /// to one customer who asks for more.
    fn wider(self) -> Self {
        // Never equal to a /24 or a /56: bit 62 is set in wide ones alone.
        Self(((self.0 >> 8) << 8) | WIDE)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 & V4 != 0 {
            let bits = u32::try_from((self.0 << 8) & 0xffff_ff00).expect("32 bits are left");
            write!(f, "{}/24", Ipv4Addr::from_bits(bits))
        } else {
            write!(f, "{}/56", Ipv6Addr::from_bits(u128::from(self.0) << 72))
        }
    }
}

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
const WIDE: u64 = 1 << 62;

#[cfg(test)]
mod tests;
