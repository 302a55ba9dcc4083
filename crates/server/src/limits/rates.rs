//! Rates of requests that a site's rules allow to each client prefix and to the host.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::time::Duration;

use foldhash::quality::RandomState;
use sekisho_certs::HostPattern;
use sekisho_gate::Rate;

use crate::limits::budget::Prefix;

/// Token buckets of all hosts with a rate.
#[derive(Debug)]
pub(crate) struct Rates {
    buckets: Rate<Key>,
    hasher: RandomState,
}

/// Place in a host record where a rate, or `in_flight`, was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Pattern of the host record. Names below a wildcard share its rates: a
    /// client can make such names up.
    pub(crate) pattern: &'a HostPattern,
    /// [`RuleOptions::rate_scope`](crate::site::RuleOptions::rate_scope), or `in_flight_scope`:
    /// the number of that place. Rules that share what was written there share the count.
    pub(crate) rule: u8,
}

/// Name of a bucket.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    /// Hash of the pattern, with a seed of this process. Two hosts with equal
    /// hashes would share buckets: among a million hosts, once in 30
    /// million starts.
    pattern: u64,
    rule: u8,
    /// None for the bucket of the host.
    client: Option<Prefix>,
}

impl Rates {
    /// Makes buckets that are full at first.
    pub(crate) fn new() -> Self {
        Self {
            buckets: Rate::new(Duration::from_secs(1)),
            hasher: RandomState::default(),
        }
    }

    /// Takes a token of a client's bucket, or of the host's if there is no client. The
    /// bucket gets `rate` per second, and holds `burst`.
    ///
    /// # Errors
    /// The wait until there is one.
    pub(crate) fn take(
        &self,
        scope: Scope<'_>,
        client: Option<Prefix>,
        rate: NonZeroU32,
        burst: NonZeroU32,
    ) -> Result<(), Duration> {
        let key = Key {
            pattern: self.hasher.hash_one(scope.pattern),
            rule: scope.rule,
            client,
        };
        self.buckets.take_burst(key, rate, burst)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::LazyLock;

    use super::*;

    static A: LazyLock<HostPattern> = LazyLock::new(|| HostPattern::parse("a.example").unwrap());
    static B: LazyLock<HostPattern> = LazyLock::new(|| HostPattern::parse("b.example").unwrap());

    /// Returns how many requests pass at once.
    fn burst(rates: &Rates, scope: Scope<'_>, client: Option<u8>, per_second: u32) -> usize {
        let client = client.map(|number| IpAddr::from(Ipv4Addr::new(192, 0, number, 1)).into());
        let rate = NonZeroU32::new(per_second).unwrap();
        let take = |_: &u32| rates.take(scope, client, rate, rate).is_ok();
        (0..10_000).take_while(take).count()
    }

    #[tokio::test(start_paused = true)]
    async fn buckets_are_apart() {
        let rates = Rates::new();
        let scope = Scope {
            pattern: &A,
            rule: 0,
        };
        let other = Scope {
            pattern: &B,
            ..scope
        };
        assert_eq!(burst(&rates, scope, Some(1), 3), 3);
        assert_eq!(burst(&rates, scope, Some(2), 3), 3);
        assert_eq!(burst(&rates, Scope { rule: 1, ..scope }, Some(1), 3), 3);
        assert_eq!(burst(&rates, other, Some(1), 3), 3);
        assert_eq!(burst(&rates, scope, None, 1), 1);
        assert_eq!(burst(&rates, scope, Some(1), 3), 0);
    }
}
