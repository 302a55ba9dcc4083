//! Requests in flight that a site's rules allow to each client prefix.

use std::num::NonZeroU32;

use sekisho_certs::HostPattern;
use sekisho_gate::{Gate, Permit, Sharing};

use crate::limits::budget::Prefix;
use crate::limits::rates::Scope;

/// Counts of requests in flight, of all hosts whose rules bound them. A count is there while
/// its requests are, which bounds the table.
#[derive(Debug)]
pub(crate) struct RequestGate(Gate<Counted>);

/// Permit of a request, until its answer, or the connection that it became, has ended.
pub(crate) type RequestPermit = Permit<Counted>;

/// Requests that count together. The bound is a part of it: requests of an edited site count
/// anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Counted {
    pattern: HostPattern,
    rule: u8,
    client: Prefix,
    most: NonZeroU32,
}

impl RequestGate {
    /// Makes a gate that nobody has entered.
    pub(crate) fn new() -> Self {
        let most = |of: &Counted| usize::try_from(of.most.get()).unwrap_or(usize::MAX);
        Self(Gate::new(usize::MAX, Sharing::AtMost(most), 0))
    }

    /// Takes a permit of a client's prefix, which may have `most` at once. None waits: clients
    /// that ask less often would wait behind those that ask most.
    pub(crate) fn enter(
        &self,
        scope: Scope<'_>,
        client: Prefix,
        most: NonZeroU32,
    ) -> Option<RequestPermit> {
        self.0.try_enter(Counted {
            pattern: scope.pattern.clone(),
            rule: scope.rule,
            client,
            most,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    #[test]
    fn requests_of_a_prefix_count_until_they_end() {
        let gate = RequestGate::new();
        let pattern = |name| HostPattern::parse(name).unwrap();
        let (a, b) = (pattern("a.example"), pattern("*.b.example"));
        let scope = Scope {
            pattern: &a,
            rule: 0,
        };
        let client = |number| IpAddr::from(Ipv4Addr::new(192, 0, number, 1)).into();
        let two = NonZeroU32::new(2).unwrap();
        let enter = |scope, number| gate.enter(scope, client(number), two);
        let (first, second) = (enter(scope, 1), enter(scope, 1));
        assert!(first.is_some() && second.is_some());
        assert!(enter(scope, 1).is_none());
        // Another network, another rule, another host, another bound.
        let other = Scope {
            pattern: &b,
            ..scope
        };
        assert!(enter(scope, 2).is_some());
        assert!(enter(Scope { rule: 1, ..scope }, 1).is_some());
        assert!(enter(other, 1).is_some());
        let three = NonZeroU32::new(3).unwrap();
        assert!(gate.enter(scope, client(1), three).is_some());
        drop(first);
        let again = enter(scope, 1);
        assert!(again.is_some() && enter(scope, 1).is_none());
        drop((second, again));
        assert_eq!(gate.0.used(), 0);
    }
}
