//! Token buckets for absent names by prefix, in tables of bounded size.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use tokio::time::Instant;

use super::Prefix;

/// Token buckets: the absent names that each prefix may still look up.
#[derive(Debug)]
pub(super) struct Absences {
    per_minute: f64,
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

type Shard = HashMap<Prefix, Bucket, RandomState>;

#[derive(Clone, Copy, Debug)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Absences {
    pub(super) fn new(per_minute: usize) -> Self {
        Self {
            // A burst may use a minute's tokens.
            per_minute: per_minute as f64,
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
        }
    }

    /// Takes a token of the prefix and one of the wider prefix around it.
    /// Returns false if either has none.
    pub(super) fn take(&self, prefix: Prefix) -> bool {
        if !self.take_of(prefix, self.per_minute) {
            return false;
        }
        let enough = self.take_of(prefix.wider(), self.per_minute * WIDE_FACTOR);
        if !enough {
            self.give_back_to(prefix, self.per_minute);
        }
        enough
    }

    /// Returns one token to the prefix and its wider prefix.
    pub(super) fn give_back(&self, prefix: Prefix) {
        self.give_back_to(prefix, self.per_minute);
        self.give_back_to(prefix.wider(), self.per_minute * WIDE_FACTOR);
    }

    fn take_of(&self, prefix: Prefix, most: f64) -> bool {
        let now = Instant::now();
        let mut shard = self.shard(prefix);
        if shard.len() >= SHARD_ENTRIES && !shard.contains_key(&prefix) {
            make_room(&mut shard, now);
        }
        let bucket = shard.entry(prefix).or_insert(Bucket {
            tokens: most,
            at: now,
        });
        bucket.tokens = level(bucket, most, now);
        bucket.at = now;
        let enough = bucket.tokens >= 1.0;
        if enough {
            bucket.tokens -= 1.0;
        }
        enough
    }

    fn give_back_to(&self, prefix: Prefix, most: f64) {
        if let Some(bucket) = self.shard(prefix).get_mut(&prefix) {
            bucket.tokens = (bucket.tokens + 1.0).min(most);
        }
    }

    fn shard(&self, prefix: Prefix) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(prefix);
        let index = usize::try_from(hash % SHARDS as u64).expect("below SHARDS");
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how many of `most` tokens a bucket holds now.
fn level(bucket: &Bucket, most: f64, now: Instant) -> f64 {
    let since = now.saturating_duration_since(bucket.at).as_secs_f64();
    (bucket.tokens + since * most / 60.0).min(most)
}

/// Drops the full buckets, which hold no information. If there are none, it
/// drops the older half: one scan then pays for many inserts.
fn make_room(shard: &mut Shard, now: Instant) {
    shard.retain(|_, bucket| now.saturating_duration_since(bucket.at) < REFILL_TIME);
    if shard.len() < SHARD_ENTRIES {
        return;
    }
    let mut ages: Vec<Instant> = shard.values().map(|bucket| bucket.at).collect();
    let middle = ages.len() / 2;
    let (_, median, _) = ages.select_nth_unstable(middle);
    let median = *median;
    let mut room = middle;
    shard.retain(|_, bucket| {
        let drop = bucket.at <= median && room > 0;
        room -= usize::from(drop);
        !drop
    });
}

/// Time after which every bucket is full again.
const REFILL_TIME: Duration = Duration::from_secs(60);

/// A wide prefix has the budget of 16 prefixes.
const WIDE_FACTOR: f64 = 16.0;

/// Number of locks, against contention between workers.
const SHARDS: usize = 16;

/// Bounds the table at about 2 MB: 65,536 prefixes in all.
const SHARD_ENTRIES: usize = 4096;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv6Addr};

    use super::*;

    fn prefix(number: u32) -> Prefix {
        // Each number gives another wide prefix.
        IpAddr::from(Ipv6Addr::from_bits(u128::from(number) << 80)).into()
    }

    #[tokio::test(start_paused = true)]
    async fn the_table_stays_bounded() {
        let absences = Absences::new(10);
        for number in 0..200_000 {
            assert!(absences.take(prefix(number)));
            if number % 1000 == 0 {
                tokio::time::advance(Duration::from_millis(1)).await;
            }
        }
        let kept: usize = absences
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().len())
            .sum();
        assert!(kept <= SHARDS * SHARD_ENTRIES, "{kept}");
        assert!(kept >= SHARDS * SHARD_ENTRIES / 4, "{kept}");
    }
}
