//! Runs that wait, bounded in the process and by client prefix.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use foldhash::quality::RandomState;
use sekisho_certs::{Prefix, lock};

/// Count of runs that wait. A run that never waits is not counted: it holds no
/// memory while others run.
///
/// The fewer permits are free, the fewer a prefix may have (*dynamic thresholds*): a
/// network with many addresses never takes the last ones.
#[derive(Debug)]
pub(crate) struct Flight {
    all: usize,
    each: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    all: usize,
    /// By prefix, and by wider prefix.
    of: HashMap<Prefix, usize, RandomState>,
}

/// Permit of a run that waits, free again once it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    flight: Arc<Flight>,
    prefix: Prefix,
}

impl Flight {
    pub(crate) fn new(all: usize, each: usize) -> Arc<Self> {
        Arc::new(Self {
            all,
            each,
            waiting: Mutex::default(),
        })
    }

    /// Takes a permit for a client; none if the process or its prefix has no more.
    pub(crate) fn enter(self: &Arc<Self>, client: IpAddr) -> Option<Permit> {
        let prefix = Prefix::from(client);
        let mut waiting = lock(&self.waiting);
        let free = self.all - waiting.all;
        let (most, most_wide) = (self.each.min(free), free * 2);
        let of = |prefix| waiting.of.get(&prefix).copied().unwrap_or(0);
        if free == 0 || of(prefix) >= most || of(prefix.wider()) >= most_wide {
            return None;
        }
        for prefix in [prefix, prefix.wider()] {
            *waiting.of.entry(prefix).or_default() += 1;
        }
        waiting.all += 1;
        Some(Permit {
            flight: Arc::clone(self),
            prefix,
        })
    }

    /// Returns how many runs wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.waiting).all
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut waiting = lock(&self.flight.waiting);
        waiting.all -= 1;
        for prefix in [self.prefix, self.prefix.wider()] {
            if let Entry::Occupied(mut of) = waiting.of.entry(prefix) {
                *of.get_mut() -= 1;
                if *of.get() == 0 {
                    of.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_in_all_and_by_prefix() {
        let flight = Flight::new(4, 2);
        let enter = |address: &str| flight.enter(address.parse().expect("an address"));
        let first = enter("192.0.2.1");
        let second = enter("192.0.2.200");
        assert!(first.is_some() && second.is_some());
        assert!(enter("192.0.2.3").is_none(), "the prefix has two permits");
        let others = ["198.51.100.1", "203.0.113.1"].map(enter);
        assert!(others.iter().all(Option::is_some));
        assert!(enter("2001:db8::1").is_none(), "the process has four");
        drop((first, others));
        assert!(enter("192.0.2.3").is_some());
        drop(second);
        assert_eq!(flight.waiting(), 0);
        assert!(lock(&flight.waiting).of.is_empty());
    }

    #[test]
    fn no_network_takes_the_last_places() {
        let flight = Flight::new(1024, 128);
        let enter = |address: String| flight.enter(address.parse().expect("an address"));
        // A /64 is one prefix, however many addresses it has.
        let one = |host| enter(format!("2001:db8:0:1::{host:x}"));
        let one: Vec<_> = (0..1000).filter_map(one).collect();
        assert_eq!(one.len(), 128);
        // A /48 has 256 prefixes.
        let wide = |number| enter(format!("2001:db8:1:{:x}::1", (number % 256) << 8));
        let wide: Vec<_> = (0..10_000).filter_map(wide).collect();
        assert!((500..=600).contains(&wide.len()), "{}", wide.len());
        let many = |number| enter(format!("2001:{:x}::1", number % 20));
        let many: Vec<_> = (0..10_000).filter_map(many).collect();
        assert!(many.len() > 100, "{}", many.len());
        for number in 0..5 {
            assert!(enter(format!("198.51.{number}.1")).is_some());
        }
    }
}
