//! Token buckets by key, in a table of bounded size.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use quick_cache::UnitWeighter;
use quick_cache::unsync::{Cache, DefaultLifecycle};
use tokio::time::Instant;

/// Token buckets by key. Each is kept as the time at which it is full again (generic cell
/// rate algorithm).
///
/// The table is bounded: a new bucket may evict another, which is then full again. Eviction
/// prefers buckets that were asked for once, which lack one token at most. A client that
/// evicts its own bucket must have taken of as many other buckets as the table holds, and
/// gains one bucket by that.
#[derive(Debug)]
pub struct Rate<K> {
    epoch: Instant,
    /// Nanoseconds in which an empty bucket becomes full, unless it holds a burst.
    period: u64,
    /// Made by the first bucket.
    shards: OnceLock<Box<[Mutex<Shard<K>>]>>,
    hasher: RandomState,
}

type Shard<K> = Cache<K, u64, UnitWeighter, RandomState>;

impl<K: Eq + Hash> Rate<K> {
    /// Makes buckets that are full at first. An empty one is full after `period`.
    #[must_use]
    pub fn new(period: Duration) -> Self {
        Self {
            epoch: Instant::now(),
            period: nanoseconds(period),
            shards: OnceLock::new(),
            hasher: RandomState::default(),
        }
    }

    /// Takes a token of a bucket that holds `most`.
    ///
    /// # Errors
    /// The wait until there is one.
    pub fn take(&self, key: K, most: NonZeroU32) -> Result<(), Duration> {
        self.take_burst(key, most, most)
    }

    /// Takes a token of a bucket that gets `rate` in a period, and holds `burst`: with 1, tokens
    /// are a period's part apart. A bucket that lacks more than it holds now, for its rate or
    /// burst was another before, counts as empty.
    ///
    /// # Errors
    /// The wait until there is one.
    pub fn take_burst(&self, key: K, rate: NonZeroU32, burst: NonZeroU32) -> Result<(), Duration> {
        let room = match burst == rate {
            // Not tokens, each of which is rounded down.
            true => self.period,
            false => self.token(rate).saturating_mul(burst.get().into()),
        };
        let mut shard = self.shard(&key);
        if let Some(mut full_at) = shard.get_mut(&key) {
            // The rule may have been edited since: no more is lacking than the bucket holds now.
            *full_at = (*full_at).min(self.now().saturating_add(room));
            *full_at = self.taken(*full_at, rate, room)?;
            return Ok(());
        }
        shard.insert(key, self.taken(0, rate, room)?);
        Ok(())
    }

    /// Looks whether a bucket that holds `most` has a token, and takes none.
    ///
    /// # Errors
    /// The wait until there is one.
    pub fn check(&self, key: &K, most: NonZeroU32) -> Result<(), Duration> {
        let full_at = self.shard(key).get(key).copied().unwrap_or_default();
        self.taken(full_at, most, self.period).map(drop)
    }

    /// Takes a token of a bucket that holds `most`, also of an empty one, which owes it then.
    pub fn charge(&self, key: K, most: NonZeroU32) {
        let mut shard = self.shard(&key);
        let full_at = shard.get(&key).copied().unwrap_or_default();
        shard.insert(key, full_at.max(self.now()) + self.token(most));
    }

    /// Gives a token back to a bucket that holds `most`.
    pub fn give_back(&self, key: &K, most: NonZeroU32) {
        if let Some(mut full_at) = self.shard(key).peek_mut(key) {
            *full_at = full_at.saturating_sub(self.token(most));
        }
    }

    /// Returns when a bucket that fills within `room` will be full again after one more token,
    /// or the wait for that.
    fn taken(&self, full_at: u64, rate: NonZeroU32, room: u64) -> Result<u64, Duration> {
        let now = self.now();
        let full_at = full_at.max(now) + self.token(rate);
        match (full_at - now).checked_sub(room) {
            None | Some(0) => Ok(full_at),
            Some(wait) => Err(Duration::from_nanos(wait)),
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }

    /// Returns the nanoseconds in which a bucket that holds `most` gets a token.
    fn token(&self, most: NonZeroU32) -> u64 {
        self.period / u64::from(most.get())
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K>> {
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
        let shard = shards[index].lock();
        shard.unwrap_or_else(PoisonError::into_inner)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Number of locks, against contention between workers.
const SHARDS: usize = 16;
/// Bounds the table at 65,536 buckets, some 8 MB with keys of 24 bytes; what a key has on the
/// heap, such as a name of 253 bytes, comes on top.
const SHARD_ENTRIES: usize = 4096;

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn rate(rate: u32) -> NonZeroU32 {
        NonZeroU32::new(rate).unwrap()
    }

    fn per_second() -> Rate<u32> {
        Rate::new(Duration::from_secs(1))
    }

    /// Returns how many tokens a bucket gives at once.
    fn burst(buckets: &Rate<u32>, key: u32, most: u32) -> u32 {
        let take = |_: &u32| buckets.take(key, rate(most)).is_ok();
        (0..10_000).take_while(take).count().try_into().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_period_holds_the_rate() {
        let buckets = per_second();
        for most in [1, 2, 3, 7, 50, 1000] {
            assert_eq!(burst(&buckets, most, most), most);
        }
        advance(Duration::from_millis(500)).await;
        assert_eq!(burst(&buckets, 50, 50), 25);
        advance(Duration::from_secs(60)).await;
        assert_eq!(burst(&buckets, 50, 50), 50);
        let per_minute = Rate::new(Duration::from_secs(60));
        assert_eq!(burst(&per_minute, 1, 3), 3);
        advance(Duration::from_secs(40)).await;
        assert_eq!(burst(&per_minute, 1, 3), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_may_be_smaller_and_larger_than_the_rate() {
        let buckets = per_second();
        let burst = |key, per_second, most| {
            let take = |_: &u32| {
                buckets
                    .take_burst(key, rate(per_second), rate(most))
                    .is_ok()
            };
            (0..10_000).take_while(take).count()
        };
        assert_eq!(burst(1, 10, 1), 1);
        assert_eq!(burst(2, 10, 25), 25);
        assert_eq!(burst(3, 7, 1), 1);
        assert_eq!(burst(4, 1, 600), 600);
        advance(Duration::from_millis(100)).await;
        assert_eq!(burst(1, 10, 1), 1);
        assert_eq!(burst(2, 10, 25), 1);
        let refused = buckets.take_burst(1, rate(10), rate(1));
        assert_eq!(refused, Err(Duration::from_millis(100)));
        advance(Duration::from_mins(10)).await;
        assert_eq!(burst(1, 10, 1), 1);
        assert_eq!(burst(2, 10, 25), 25);
        assert_eq!(burst(4, 1, 600), 600);
        // The bucket stays the same after its rule was edited.
        assert_eq!(burst(2, 10, 1), 0);
        assert_eq!(burst(2, 10, 30), 29);
    }

    /// A client must not wait for what it owes to a burst that is no more.
    #[tokio::test(start_paused = true)]
    async fn a_smaller_burst_ends_the_debt_of_a_larger() {
        let buckets = per_second();
        let take = |rate_of, most| buckets.take_burst(1, rate(rate_of), rate(most));
        for _ in 0..50_000 {
            take(1, 100_000).unwrap();
        }
        assert_eq!(take(1, 10), Err(Duration::from_secs(1)));
        advance(Duration::from_secs(1)).await;
        assert_eq!(take(1, 10), Ok(()));
        assert_eq!(take(1, 10), Err(Duration::from_secs(1)));
        assert_eq!(take(5, 5), Err(Duration::from_millis(200)));
        advance(Duration::from_millis(200)).await;
        assert_eq!(take(5, 5), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_says_when_and_takes_nothing() {
        let buckets = per_second();
        assert_eq!(burst(&buckets, 1, 2), 2);
        for _ in 0..5 {
            let refused = buckets.take(1, rate(2));
            assert_eq!(refused, Err(Duration::from_millis(500)));
        }
        advance(Duration::from_millis(500)).await;
        assert_eq!(buckets.take(1, rate(2)), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_is_given_back_is_there_again_and_no_more() {
        let buckets = per_second();
        assert_eq!(burst(&buckets, 1, 3), 3);
        buckets.give_back(&1, rate(3));
        assert_eq!(burst(&buckets, 1, 3), 1);
        for _ in 0..9 {
            buckets.give_back(&1, rate(3));
        }
        assert_eq!(burst(&buckets, 1, 3), 3);
        buckets.give_back(&2, rate(3));
        assert_eq!(burst(&buckets, 2, 3), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_charge_takes_a_token_also_of_an_empty_bucket() {
        let buckets = per_second();
        for _ in 0..9 {
            assert_eq!(buckets.check(&1, rate(2)), Ok(()));
        }
        buckets.charge(1, rate(2));
        assert_eq!(burst(&buckets, 1, 2), 1);
        buckets.charge(1, rate(2));
        let refused = buckets.check(&1, rate(2));
        assert_eq!(refused, Err(Duration::from_secs(1)));
        advance(Duration::from_secs(1)).await;
        assert_eq!(buckets.check(&1, rate(2)), Ok(()));
        assert_eq!(burst(&buckets, 1, 2), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_keys_keeps_the_table_bounded_and_busy_buckets_in_it() {
        let buckets = Rate::new(Duration::from_secs(1));
        let key = |number: u64| [number, 0, 0];
        let burst = || (0..20).take_while(|_| buckets.take(key(0), rate(10)).is_ok());
        assert_eq!(burst().count(), 10);
        for number in 1..200_000 {
            assert_eq!(buckets.take(key(number), rate(10)), Ok(()));
            if number % 1000 == 0 {
                assert_eq!(burst().count(), 0, "{number}");
            }
        }
        let shards = buckets.shards.get().unwrap();
        let kept: usize = shards.iter().map(|shard| shard.lock().unwrap().len()).sum();
        let used = |shard: &Mutex<Shard<_>>| shard.lock().unwrap().memory_used().total();
        let bytes: usize = shards.iter().map(used).sum();
        assert!(bytes <= 8 << 20, "{bytes}");
        assert!(kept <= SHARDS * SHARD_ENTRIES, "{kept}");
        assert!(kept >= SHARDS * SHARD_ENTRIES / 2, "{kept}");
    }
}
