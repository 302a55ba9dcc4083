//! Rates of requests that a site's rules allow to each client prefix and to the
//! host, in tables of bounded size.

use std::hash::BuildHasher;
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use sekisho_certs::HostPattern;
use tokio::time::Instant;

use crate::budget::Prefix;

/// Token buckets of all hosts with a rate. Each holds the requests of a second,
/// and is kept as the time at which it is full again (generic cell rate
/// algorithm).
///
/// The tables are bounded: a new bucket may evict another, which is then full
/// again. Eviction prefers buckets that were asked for once, which lack one
/// token at most. A client that evicts its own bucket must have sent requests
/// from as many other prefixes as a table holds, and gains one second's
/// requests by that.
#[derive(Debug)]
pub(crate) struct Rates {
    epoch: Instant,
    /// Made by the first request that a rate bounds.
    shards: OnceLock<Box<[Mutex<Shard>]>>,
    hasher: RandomState,
}

type Shard = Cache<Key, u64, UnitWeighter, RandomState>;

/// Place of a rule's rate in a host record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// Pattern of the host record. Names below a wildcard share its rates: a
    /// client can make such names up.
    pub(crate) pattern: &'a HostPattern,
    /// [`crate::site::RuleOptions::rate_scope`].
    pub(crate) rule: u8,
}

/// Name of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    pub(crate) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            shards: OnceLock::new(),
            hasher: RandomState::default(),
        }
    }

    /// Takes a token of a client's bucket, which gets `rate` per second.
    ///
    /// # Errors
    /// The wait until there is one.
    pub(crate) fn take_of_client(
        &self,
        scope: Scope<'_>,
        client: Prefix,
        rate: NonZeroU32,
    ) -> Result<(), Duration> {
        self.take(self.key(scope, Some(client)), rate)
    }

    /// Takes a token of the host's bucket, which gets `rate` per second.
    ///
    /// # Errors
    /// The wait until there is one.
    pub(crate) fn take_of_host(&self, scope: Scope<'_>, rate: NonZeroU32) -> Result<(), Duration> {
        self.take(self.key(scope, None), rate)
    }

    fn key(&self, scope: Scope<'_>, client: Option<Prefix>) -> Key {
        Key {
            pattern: self.hasher.hash_one(scope.pattern),
            rule: scope.rule,
            client,
        }
    }

    fn take(&self, key: Key, rate: NonZeroU32) -> Result<(), Duration> {
        let now = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut shard = self.shard(&key);
        if let Some(mut full_at) = shard.get_mut(&key) {
            *full_at = taken(*full_at, now, rate)?;
            return Ok(());
        }
        shard.insert(key, taken(0, now, rate)?);
        Ok(())
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let shards = self.shards.get_or_init(|| {
            let shard = || {
                Cache::with(
                    SHARD_ENTRIES,
                    SHARD_ENTRIES as u64,
                    UnitWeighter,
                    self.hasher.clone(),
                    DefaultLifecycle::default(),
                )
            };
            (0..SHARDS).map(|_| Mutex::new(shard())).collect()
        });
        // The table takes other bits of the hash.
        let hash = self.hasher.hash_one(key) >> 32;
        let index = usize::try_from(hash % SHARDS as u64).expect("below SHARDS");
        shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns when a bucket that is full at `full_at` will be full again after
/// another token was taken, all in nanoseconds.
fn taken(full_at: u64, now: u64, rate: NonZeroU32) -> Result<u64, Duration> {
    let token = SECOND / u64::from(rate.get());
    let full_at = full_at.max(now) + token;
    match (full_at - now).checked_sub(SECOND) {
        None | Some(0) => Ok(full_at),
        Some(wait) => Err(Duration::from_nanos(wait)),
    }
}

const SECOND: u64 = 1_000_000_000;
/// Number of locks, against contention between workers.
const SHARDS: usize = 16;
/// Bounds the tables at 65,536 buckets, some 8 MB in all.
const SHARD_ENTRIES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};
    use std::sync::LazyLock;

    use tokio::time::advance;

    use super::*;

    static A: LazyLock<HostPattern> = LazyLock::new(|| HostPattern::parse("a.example").unwrap());
    static B: LazyLock<HostPattern> = LazyLock::new(|| HostPattern::parse("b.example").unwrap());

    fn scope() -> Scope<'static> {
        Scope {
            pattern: &A,
            rule: 0,
        }
    }

    fn prefix(number: u32) -> Prefix {
        IpAddr::from(Ipv6Addr::from_bits(u128::from(number) << 80)).into()
    }

    fn rate(rate: u32) -> NonZeroU32 {
        NonZeroU32::new(rate).unwrap()
    }

    /// Returns how many requests pass at once.
    fn burst(rates: &Rates, scope: Scope<'_>, client: u32, per_second: u32) -> u32 {
        let take = |_: &u32| {
            let taken = rates.take_of_client(scope, prefix(client), rate(per_second));
            taken.is_ok()
        };
        (0..10_000).take_while(take).count().try_into().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_holds_the_rate() {
        let rates = Rates::new();
        for per_second in [1, 2, 3, 7, 50, 1000] {
            assert_eq!(burst(&rates, scope(), per_second, per_second), per_second);
        }
        advance(Duration::from_millis(500)).await;
        assert_eq!(burst(&rates, scope(), 50, 50), 25);
        advance(Duration::from_secs(60)).await;
        assert_eq!(burst(&rates, scope(), 50, 50), 50);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_says_when_and_takes_nothing() {
        let rates = Rates::new();
        assert_eq!(rates.take_of_host(scope(), rate(2)), Ok(()));
        assert_eq!(rates.take_of_host(scope(), rate(2)), Ok(()));
        for _ in 0..5 {
            let refused = rates.take_of_host(scope(), rate(2));
            assert_eq!(refused, Err(Duration::from_millis(500)));
        }
        advance(Duration::from_millis(500)).await;
        assert_eq!(rates.take_of_host(scope(), rate(2)), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn buckets_are_apart() {
        let rates = Rates::new();
        assert_eq!(burst(&rates, scope(), 1, 3), 3);
        assert_eq!(burst(&rates, scope(), 2, 3), 3);
        assert_eq!(burst(&rates, Scope { rule: 1, ..scope() }, 1, 3), 3);
        let other = Scope {
            pattern: &B,
            ..scope()
        };
        assert_eq!(burst(&rates, other, 1, 3), 3);
        assert_eq!(rates.take_of_host(scope(), rate(1)), Ok(()));
        assert_eq!(burst(&rates, scope(), 1, 3), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_prefixes_keeps_the_table_bounded_and_busy_buckets_in_it() {
        let rates = Rates::new();
        assert_eq!(burst(&rates, scope(), 0, 10), 10);
        for number in 1..200_000 {
            assert_eq!(
                rates.take_of_client(scope(), prefix(number), rate(10)),
                Ok(())
            );
            if number % 1000 == 0 {
                assert_eq!(burst(&rates, scope(), 0, 10), 0, "{number}");
            }
        }
        let shards = rates.shards.get().unwrap();
        let kept: usize = shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        let used = |shard: &Mutex<Shard>| shard.lock().unwrap().memory_used().total();
        let bytes: usize = shards.iter().map(used).sum();
        assert!(bytes <= 8 << 20, "{bytes}");
        assert!(kept <= SHARDS * SHARD_ENTRIES, "{kept}");
        assert!(kept >= SHARDS * SHARD_ENTRIES / 2, "{kept}");
    }
}
