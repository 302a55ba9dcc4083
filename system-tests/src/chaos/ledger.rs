//! Ledger of all writes, from which follows what a server may serve.
//!
//! All times are since the start of the run.

use std::collections::HashMap;
use std::time::Duration;

/// State of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// The host does not exist.
    Absent,
    /// The host has its certificate of this number.
    Generation(u64),
}

/// History of all hosts, and of the catalog's outages.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    hosts: HashMap<String, Vec<Write>>,
    outages: Vec<Outage>,
}

/// Write to a host. The writes to one host are sequential.
#[derive(Debug)]
struct Write {
    state: State,
    begun: Duration,
    /// Time of the acknowledgement. None while the write runs, and if it was
    /// refused: it may have taken effect nevertheless.
    acknowledged: Option<Duration>,
}

#[derive(Debug)]
struct Outage {
    begun: Duration,
    ended: Option<Duration>,
}

impl Ledger {
    /// Records the start of a write. Without an acknowledgement it counts as
    /// refused.
    pub(crate) fn begin(&mut self, host: &str, state: State, now: Duration) {
        let write = Write {
            state,
            begun: now,
            acknowledged: None,
        };
        self.hosts.entry(host.to_owned()).or_default().push(write);
    }

    /// Records that the last write to this host is acknowledged.
    pub(crate) fn acknowledge(&mut self, host: &str, now: Duration) {
        let last = self.hosts.get_mut(host).and_then(|all| all.last_mut());
        last.expect("it was begun").acknowledged = Some(now);
    }

    pub(crate) fn outage_begins(&mut self, now: Duration) {
        self.outages.push(Outage {
            begun: now,
            ended: None,
        });
    }

    pub(crate) fn outage_ends(&mut self, now: Duration) {
        let last = self.outages.last_mut();
        last.expect("it has begun").ended = Some(now);
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts.keys().map(String::as_str)
    }

    /// Returns whether a write of this state to the host was ever begun.
    pub(crate) fn knows(&self, host: &str, state: State) -> bool {
        self.writes(host).iter().any(|write| write.state == state)
    }

    /// Returns what a server may serve to a client that came at `from` and was
    /// answered at `to`. These are the last state that had reached all servers
    /// at `from`, and every later write.
    pub(crate) fn allowed(&self, host: &str, from: Duration, to: Duration) -> Vec<State> {
        let mut states = Vec::new();
        let begun = self.writes(host).iter().filter(|write| write.begun <= to);
        for write in begun.rev() {
            states.push(write.state);
            let reached = write.acknowledged.and_then(|at| self.reached(at));
            if reached.is_some_and(|reached| reached <= from) {
                return states;
            }
        }
        states.push(State::Absent);
        states
    }

    /// Returns what the catalog may hold after the last write.
    pub(crate) fn last(&self, host: &str) -> Vec<State> {
        let mut states = Vec::new();
        for write in self.writes(host).iter().rev() {
            states.push(write.state);
            if write.acknowledged.is_some() {
                return states;
            }
        }
        states.push(State::Absent);
        states
    }

    /// Returns the time from which all servers serve the last write; None if
    /// that is still open.
    pub(crate) fn settled(&self, host: &str) -> Option<Duration> {
        let last = self.writes(host).last()?;
        self.reached(last.acknowledged?)
    }

    /// Returns when a write that was acknowledged at this time has reached all
    /// servers at the latest. None during an outage of the catalog.
    fn reached(&self, acknowledged: Duration) -> Option<Duration> {
        let mut due = acknowledged + BOUND;
        for outage in &self.outages {
            let healed = outage.ended.map(|ended| ended + HEALED);
            if outage.begun <= due && healed.is_none_or(|healed| healed > acknowledged) {
                due = due.max(healed?);
            }
        }
        Some(due)
    }

    fn writes(&self, host: &str) -> &[Write] {
        self.hosts.get(host).map_or(&[], Vec::as_slice)
    }
}

/// Longest time from a write's acknowledgement until a server with a working
/// change feed serves it. The promise is 100 ms at the 99th percentile, on an
/// idle machine. Here three servers, two stores and their clients share one
/// machine.
pub(crate) const BOUND: Duration = Duration::from_secs(2);

/// Longest time from the end of a catalog outage until a server follows changes
/// again: the longest rest of the circuit breaker, 5 s, and a reconnect.
pub(crate) const HEALED: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_state_is_allowed_until_the_change_has_reached_all() {
        let mut ledger = Ledger::default();
        let (zero, one) = (State::Generation(0), State::Generation(1));
        ledger.begin("a", zero, at(0));
        ledger.acknowledge("a", at(0));
        ledger.begin("a", one, at(10));
        assert_eq!(ledger.allowed("a", at(5), at(6)), [zero]);
        assert_eq!(ledger.allowed("a", at(9), at(10)), [one, zero]);
        assert_eq!(ledger.settled("a"), None);
        ledger.acknowledge("a", at(11));
        assert_eq!(ledger.allowed("a", at(12), at(13)), [one, zero]);
        assert_eq!(ledger.allowed("a", at(13), at(13)), [one]);
        assert_eq!(ledger.settled("a"), Some(at(13)));
    }

    #[test]
    fn an_outage_postpones_it() {
        let mut ledger = Ledger::default();
        ledger.begin("a", State::Generation(0), at(0));
        ledger.acknowledge("a", at(10));
        ledger.outage_begins(at(11));
        assert_eq!(ledger.settled("a"), None);
        ledger.outage_ends(at(20));
        assert_eq!(ledger.settled("a"), Some(at(20) + HEALED));
        ledger.begin("b", State::Generation(0), at(21));
        ledger.acknowledge("b", at(22));
        assert_eq!(ledger.settled("b"), Some(at(20) + HEALED));
        ledger.begin("c", State::Generation(0), at(30));
        ledger.acknowledge("c", at(30));
        assert_eq!(ledger.settled("c"), Some(at(32)));
    }

    #[test]
    fn a_refused_write_may_have_happened() {
        let mut ledger = Ledger::default();
        let (zero, one) = (State::Generation(0), State::Generation(1));
        ledger.begin("a", zero, at(0));
        ledger.acknowledge("a", at(0));
        ledger.begin("a", one, at(10));
        assert_eq!(ledger.allowed("a", at(99), at(99)), [one, zero]);
        assert_eq!(ledger.last("a"), [one, zero]);
        ledger.begin("a", State::Absent, at(100));
        ledger.acknowledge("a", at(101));
        assert_eq!(ledger.allowed("a", at(103), at(103)), [State::Absent]);
        assert_eq!(ledger.last("a"), [State::Absent]);
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }
}
