//! Simulated visits to the memory cache: the server's own cache, with entries that have the
//! weight of a host and hold nothing.

use anyhow::{Context, Result};
use quick_cache::Weighter;
use sekisho_certs::cache::records;

use sekisho_bench::load::names::{Order, Picker};

/// Visitors who choose the n-th of all hosts in proportion to n to the power of minus the
/// exponent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitors {
    pub(crate) hosts: usize,
    pub(crate) exponent: f64,
}

impl Visitors {
    /// Returns how many hosts a cache with `memory` bytes holds.
    pub(crate) fn held(self, memory: usize) -> usize {
        let capacity = records::<u32, (), _>(Weight, memory).capacity();
        self.hosts.min((capacity / RECORD) as usize)
    }

    /// Returns the percentage of visits that find their host in a cache with `memory` bytes.
    pub(crate) fn hits(self, memory: usize) -> f64 {
        let cache = records::<u32, (), _>(Weight, memory);
        let held = self.held(memory);
        for host in 0..held {
            cache.insert(host as u32, ());
        }
        let mut picker = Picker::new(Order::Zipf(self.exponent), self.hosts, 0, SEED);
        let mut visit = || {
            let host = picker.pick() as u32;
            let hit = cache.get(&host).is_some();
            if !hit {
                cache.insert(host, ());
            }
            hit
        };
        for _ in 0..WARM_UP * held {
            visit();
        }
        let count = held.max(LEAST_VISITS);
        let hits = (0..count).filter(|_| visit()).count();
        100.0 * hits as f64 / count as f64
    }

    /// Returns the memory in bytes with which these percentages of visits, in ascending
    /// order, find their host.
    pub(crate) fn memory_for<const N: usize>(self, percentages: [f64; N]) -> [usize; N] {
        let mut from = LEAST_MEMORY;
        percentages.map(|percentage| {
            from = least(from, |memory| self.hits(memory) >= percentage);
            from
        })
    }
}

/// Returns the least number from `from` on that is enough, or one that is up to a
/// twenty-fifth larger.
fn least(from: usize, is_enough: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, from);
    while !is_enough(high) {
        low = high;
        high *= 2;
    }
    while high - low > high / 25 {
        let middle = low.midpoint(high);
        if is_enough(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// Returns the bytes that a setting such as `64MiB` stands for.
pub(crate) fn bytes(memory: &str) -> Result<usize> {
    let number = memory.strip_suffix("MiB").and_then(|it| it.parse().ok());
    number
        .map(|mebibytes: usize| mebibytes << 20)
        .with_context(|| format!("{memory:?} is no number of MiB"))
}

#[derive(Clone)]
struct Weight;

impl Weighter<u32, ()> for Weight {
    fn weight(&self, _: &u32, (): &()) -> u64 {
        RECORD
    }
}

/// Bytes that the server charges for a host of the fixtures, with P-256. The rows that
/// measure hits check it.
pub(crate) const RECORD: u64 = 2_400;
/// Visits before those that count, for each host that the cache holds. It begins with the most
/// popular ones: then the hits after so many visits are within half a percentage point of what
/// they are after a thousand. From an empty cache, it would take hundreds.
const WARM_UP: usize = 24;
/// Visits that tell the percentage within a fifth of a point.
const LEAST_VISITS: usize = 200_000;
/// Least value of `[cache] memory`.
const LEAST_MEMORY: usize = 1 << 20;
/// Another sequence than that of the load client.
const SEED: u64 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    fn visitors(hosts: usize, exponent: f64) -> Visitors {
        Visitors { hosts, exponent }
    }

    #[test]
    fn a_cache_with_room_for_all_hosts_misses_none() {
        let visitors = visitors(300, 1.0);
        assert_eq!(visitors.held(1 << 20), 300);
        assert_eq!(visitors.hits(1 << 20), 100.0);
    }

    #[test]
    fn a_cache_comes_near_to_the_share_of_the_most_popular_hosts() {
        let visitors = visitors(5_000, 1.0);
        let held = visitors.held(1 << 20);
        let sum = |hosts| (1..=hosts).map(|host| 1.0 / host as f64).sum::<f64>();
        let best = 100.0 * sum(held) / sum(5_000);
        let hits = visitors.hits(1 << 20);
        assert!(hits < best && hits > best - 3.0, "{hits} of {best}");
    }

    #[test]
    fn more_hits_take_more_memory() {
        let visitors = visitors(1_000, 1.0);
        let [some, most] = visitors.memory_for([95.0, 99.0]);
        assert!(LEAST_MEMORY < some && some < most);
        // Each cache has a hash of its own: which hosts share a shard differs.
        assert!(visitors.hits(most) > 98.5 && visitors.hits(most / 2) < 98.5);
    }

    #[test]
    fn the_least_number_is_found_within_a_twenty_fifth() {
        for bound in [1, 100, 101, 150, 399, 12_345] {
            let found = least(100, |number| number >= bound);
            let bound = bound.max(100);
            assert!(found >= bound && found - bound <= found / 25, "{found}");
        }
    }

    #[test]
    fn settings_are_numbers_of_mebibytes() {
        assert_eq!(bytes("64MiB").unwrap(), 64 << 20);
        assert!(bytes("1GiB").is_err() && bytes("MiB").is_err());
    }
}
