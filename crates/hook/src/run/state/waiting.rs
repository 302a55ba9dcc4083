//! Runs that wait in a state, and the memory that they hold there.

use std::collections::HashMap;
use std::sync::Mutex;
use std::task::Waker;

use foldhash::quality::RandomState;
use mlua::Thread;
use sekisho_certs::{Prefix, lock};

/// Runs that wait, with their coroutines.
#[derive(Default)]
pub(crate) struct Waiting(Mutex<Runs>);

#[derive(Default)]
struct Runs {
    next: u64,
    by_number: HashMap<u64, Waits, RandomState>,
}

/// Run that waits.
struct Waits {
    /// Network of its client; none for `test()`.
    network: Option<Prefix>,
    /// Bytes by which the state's memory grew in the run's stretches.
    held: usize,
    coroutine: Thread,
    waker: Option<Waker>,
}

impl Waiting {
    /// Adds a run. Returns its number.
    pub(crate) fn add(&self, network: Option<Prefix>, held: usize, coroutine: Thread) -> u64 {
        let mut runs = lock(&self.0);
        runs.next += 1;
        let number = runs.next;
        let waits = Waits {
            network,
            held,
            coroutine,
            waker: None,
        };
        runs.by_number.insert(number, waits);
        number
    }

    /// Removes a run, and returns its coroutine; none if the run was broken off.
    pub(crate) fn remove(&self, number: u64) -> Option<Thread> {
        let waits = lock(&self.0).by_number.remove(&number)?;
        Some(waits.coroutine)
    }

    /// Notes who is woken if the run is broken off. Returns false if it was.
    pub(crate) fn note(&self, number: u64, waker: &Waker) -> bool {
        let mut runs = lock(&self.0);
        let Some(waits) = runs.by_number.get_mut(&number) else {
            return false;
        };
        match &mut waits.waker {
            Some(noted) => noted.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
        true
    }

    /// Returns the bytes that the runs hold.
    pub(crate) fn held(&self) -> usize {
        lock(&self.0)
            .by_number
            .values()
            .map(|waits| waits.held)
            .sum()
    }

    /// Breaks off runs of the networks that hold most, until an eighth of `memory` is
    /// freed: many networks may share what one alone held before. What `own` holds, the
    /// network of the run that found no memory, counts with it. A network that holds
    /// little is left alone. Returns the coroutines, which the caller resets.
    pub(crate) fn break_off(&self, memory: usize, own: (Option<Prefix>, usize)) -> Vec<Thread> {
        let mut runs = lock(&self.0);
        let mut by_network = HashMap::<_, usize, RandomState>::from_iter([own]);
        for waits in runs.by_number.values() {
            *by_network.entry(waits.network).or_default() += waits.held;
        }
        let mut networks: Vec<_> = by_network.into_iter().collect();
        networks.sort_unstable_by_key(|&(_, held)| std::cmp::Reverse(held));
        let (mut freed, mut coroutines) = (0, Vec::new());
        for (network, held) in networks {
            if freed >= memory / 8 || held < memory / LITTLE {
                break;
            }
            freed += held;
            let broken = runs
                .by_number
                .extract_if(|_, waits| waits.network == network);
            for (_, waits) in broken {
                if let Some(waker) = waits.waker {
                    waker.wake();
                }
                coroutines.push(waits.coroutine);
            }
        }
        coroutines
    }
}

/// Part of a state's memory that a network must hold to be broken off: 64 KiB of the
/// default, 20 runs that keep nothing.
const LITTLE: usize = 256;

#[cfg(test)]
mod tests {
    use mlua::Lua;

    use super::*;

    #[test]
    fn networks_that_hold_most_are_broken_off_first() {
        let lua = Lua::new();
        let waiting = Waiting::default();
        let network = |number: u8| Some(Prefix::from(std::net::IpAddr::from([192, 0, number, 1])));
        let add = |number, kilobytes: usize| {
            let function = lua.create_function(|_, ()| Ok(())).unwrap();
            let coroutine = lua.create_thread(function).unwrap();
            waiting.add(network(number), kilobytes << 10, coroutine)
        };
        let two = [add(1, 700), add(1, 800)];
        let (second, third, little) = (add(2, 1000), add(3, 900), add(4, 63));
        let memory = 16 << 20;
        // The run that found no memory took most: its network has only itself to blame.
        assert!(waiting.break_off(memory, (network(5), 2 << 20)).is_empty());
        assert_eq!(waiting.break_off(memory, (network(4), 0)).len(), 3);
        for number in two.into_iter().chain([second]) {
            assert!(!waiting.note(number, Waker::noop()));
            assert!(waiting.remove(number).is_none());
        }
        assert_eq!(waiting.held(), 963 << 10);
        assert_eq!(waiting.break_off(memory, (network(4), 0)).len(), 1);
        assert!(!waiting.note(third, Waker::noop()));
        assert!(waiting.break_off(memory, (network(4), 0)).is_empty());
        assert!(waiting.note(little, Waker::noop()));
        assert!(waiting.remove(little).is_some());
    }
}
