//! Requests in flight over all workers, and who is refused when they are too
//! many.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use sekisho_certs::HostPattern;
use sekisho_certs::metrics::Gauge;

/// Count of the requests in flight, by host record.
///
/// Up to the limit, each request has a place. From there on, a host is refused
/// that has its share of the limit or more: the limit divided by the hosts with
/// requests in flight. A host whose upstream hangs has the most, and is refused
/// first. Twice the limit is never exceeded.
///
/// The table holds only hosts with requests in flight: two limits at most.
#[derive(Debug)]
pub(crate) struct Overload {
    limit: u64,
    /// Requests in flight.
    total: Gauge,
    /// Hosts with requests in flight. Relaxed: a host more or less does not
    /// matter.
    hosts: AtomicU64,
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

/// Requests in flight by the hash of the host's pattern.
type Shard = HashMap<u64, u64, RandomState>;

/// Place of a request in flight; dropping it gives it back.
#[derive(Debug)]
pub(crate) struct InFlight {
    overload: Arc<Overload>,
    host: u64,
}

impl Overload {
    /// Makes the count, which `total` shows; past `limit`, requests are refused.
    pub(crate) fn new(limit: NonZeroUsize, total: Gauge) -> Self {
        Self {
            limit: limit.get() as u64,
            total,
            hosts: AtomicU64::new(0),
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::default(),
        }
    }

    /// Takes a place for a request to the host record with this pattern. None
    /// if the request is refused.
    pub(crate) fn enter(self: &Arc<Self>, pattern: &HostPattern) -> Option<InFlight> {
        let host = self.hasher.hash_one(pattern);
        let mut shard = self.shard(host);
        let own = shard.get(&host).copied().unwrap_or_default();
        let total = self.total.get();
        if total >= self.limit {
            let hosts = self.hosts.load(Relaxed) + u64::from(own == 0);
            let share = self.limit.div_ceil(hosts);
            if own >= share || total >= 2 * self.limit {
                return None;
            }
        }
        if own == 0 {
            self.hosts.fetch_add(1, Relaxed);
        }
        shard.insert(host, own + 1);
        self.total.inc();
        drop(shard);
        Some(InFlight {
            overload: Arc::clone(self),
            host,
        })
    }

    fn leave(&self, host: u64) {
        let mut shard = self.shard(host);
        self.total.dec();
        if let Some(own) = shard.get_mut(&host) {
            *own -= 1;
            if *own == 0 {
                shard.remove(&host);
                self.hosts.fetch_sub(1, Relaxed);
            }
        }
    }

    fn shard(&self, host: u64) -> MutexGuard<'_, Shard> {
        // The table takes other bits of the hash.
        let index = usize::try_from((host >> 32) % SHARDS as u64).expect("below SHARDS");
        self.shards[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.overload.leave(self.host);
    }
}

/// Number of locks, against contention between workers.
const SHARDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(limit: usize) -> Arc<Overload> {
        Arc::new(Overload::new(
            NonZeroUsize::new(limit).unwrap(),
            Gauge::default(),
        ))
    }

    fn enter(overload: &Arc<Overload>, host: &str, count: usize) -> Vec<InFlight> {
        let host = HostPattern::parse(host).unwrap();
        (0..count).map_while(|_| overload.enter(&host)).collect()
    }

    #[test]
    fn the_host_with_most_requests_is_refused_first() {
        let overload = overload(100);
        let mut slow = enter(&overload, "slow.example", 1000);
        assert_eq!(slow.len(), 100);
        let other = enter(&overload, "other.example", 1000);
        assert_eq!(other.len(), 50);
        let third = enter(&overload, "third.example", 1000);
        assert_eq!(third.len(), 34);
        // Below the limit, the slow host may have a place again.
        slow.truncate(15);
        assert_eq!(enter(&overload, "slow.example", 1).len(), 1);
    }

    #[test]
    fn a_host_with_its_share_waits_until_the_load_is_gone() {
        let overload = overload(10);
        let slow = enter(&overload, "slow.example", 10);
        let one = enter(&overload, "one.example", 1);
        assert_eq!(one.len(), 1);
        assert_eq!(enter(&overload, "slow.example", 1).len(), 0);
        drop(one);
        assert_eq!(enter(&overload, "slow.example", 1).len(), 0);
        drop(slow);
        assert_eq!(enter(&overload, "slow.example", 1).len(), 1);
    }

    #[test]
    fn many_hosts_have_no_more_than_twice_the_limit() {
        let overload = overload(10);
        let hosts = (0..100).flat_map(|n| enter(&overload, &format!("{n}.example"), 1));
        let held: Vec<_> = hosts.collect();
        assert_eq!(held.len(), 20);
        drop(held);
        assert_eq!(overload.total.get(), 0);
        assert_eq!(overload.hosts.load(Relaxed), 0);
        let kept = overload
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().len());
        assert_eq!(kept.sum::<usize>(), 0);
    }
}
