//! Open connections by the client's prefix.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use foldhash::quality::RandomState;
use futures_util::task::AtomicWaker;

use super::{AT_ONCE, now};
use crate::budget::Prefix;

#[derive(Debug, Default)]
pub(super) struct ByPrefix {
    pub(super) total: usize,
    pub(super) prefixes: HashMap<Prefix, Vec<Arc<State>>, RandomState>,
    /// Prefixes by how many connections they hold.
    pub(super) by_count: BTreeSet<(usize, Prefix)>,
}

/// State of a connection that other tasks read, and that marks it for closing.
#[derive(Debug)]
pub(super) struct State {
    /// When the connection's task last ran, in [`now`]'s milliseconds. Relaxed:
    /// comparing ages needs no order with other data.
    pub(super) active: AtomicU64,
    /// Tells the task to end. Release in `give_up` pairs with Acquire in `poll`.
    pub(super) given_up: AtomicBool,
    /// Index in its prefix's list. Relaxed: only read and written under the
    /// lock.
    pub(super) index: AtomicUsize,
    pub(super) task: AtomicWaker,
}

impl ByPrefix {
    pub(super) fn add(&mut self, prefix: Prefix, state: Arc<State>) {
        let held = self.prefixes.entry(prefix).or_default();
        state.index.store(held.len(), Ordering::Relaxed);
        held.push(state);
        let count = held.len();
        self.total += 1;
        self.recount(prefix, count - 1, count);
    }

    pub(super) fn remove(&mut self, prefix: Prefix, state: &Arc<State>) {
        let Some(held) = self.prefixes.get_mut(&prefix) else {
            return;
        };
        let before = held.len();
        let index = state.index.load(Ordering::Relaxed);
        // `longest_idle` removed the connections that were given up.
        if !held
            .get(index)
            .is_some_and(|other| Arc::ptr_eq(other, state))
        {
            return;
        }
        held.swap_remove(index);
        if let Some(moved) = held.get(index) {
            moved.index.store(index, Ordering::Relaxed);
        }
        self.total -= 1;
        self.recount(prefix, before, before - 1);
    }

    /// Removes and returns the connections of a prefix that have been idle for
    /// longest, at least `least_idle` milliseconds. It scans all of them, and
    /// hence removes 1/64 at once.
    pub(super) fn longest_idle(&mut self, prefix: Prefix, least_idle: u64) -> Vec<Arc<State>> {
        let Some(held) = self.prefixes.get_mut(&prefix) else {
            return Vec::new();
        };
        let before = held.len();
        let wanted = (before / AT_ONCE).max(1).min(before);
        held.select_nth_unstable_by_key(wanted - 1, |state| state.active.load(Ordering::Relaxed));
        let latest = now().saturating_sub(least_idle);
        let mut victims: Vec<_> = held.drain(..wanted).collect();
        held.extend(victims.extract_if(.., |state| state.active.load(Ordering::Relaxed) > latest));
        for (index, state) in held.iter().enumerate() {
            state.index.store(index, Ordering::Relaxed);
        }
        let after = held.len();
        self.total -= victims.len();
        self.recount(prefix, before, after);
        victims
    }

    fn recount(&mut self, prefix: Prefix, before: usize, after: usize) {
        self.by_count.remove(&(before, prefix));
        if after == 0 {
            self.prefixes.remove(&prefix);
        } else {
            self.by_count.insert((after, prefix));
        }
    }
}
