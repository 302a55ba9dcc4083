//! Open connections of one worker, by the client's prefix.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use foldhash::quality::RandomState;
use futures_util::task::AtomicWaker;

use crate::budget::Prefix;

/// Table of a worker's open connections.
#[derive(Debug, Default)]
pub(super) struct ByPrefix {
    /// Connections, those of proxies that have not named a client included.
    pub(super) total: usize,
    pub(super) prefixes: HashMap<Prefix, Vec<Arc<State>>, RandomState>,
    /// Prefixes by how many connections they hold.
    pub(super) by_count: BTreeSet<(usize, Prefix)>,
}

/// State of a connection that other tasks read, and that marks it for closing.
#[derive(Debug)]
pub(super) struct State {
    /// When the connection's task last ran, for bytes or for a timer, in [`super::now`]'s
    /// milliseconds. Relaxed: comparing moments needs no order with other data.
    pub(super) active: AtomicU64,
    /// Tells the task to end. Release in `give_up` pairs with Acquire in `poll`.
    pub(super) given_up: AtomicBool,
    /// Index in its prefix's list. Relaxed: only read and written under the
    /// table's lock.
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
        // `take_idle` removed the connections that were given up.
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

    /// Returns how many connections a prefix holds.
    pub(super) fn count(&self, prefix: Prefix) -> usize {
        self.prefixes.get(&prefix).map_or(0, Vec::len)
    }

    /// Returns the prefixes that hold more than `count` connections, and how many.
    pub(super) fn larger_than(&self, count: usize) -> impl Iterator<Item = (usize, Prefix)> {
        let by_count = self.by_count.iter().rev().copied();
        by_count.take_while(move |(held, _)| *held > count)
    }

    /// Returns the prefix that holds the most connections, and how many.
    pub(super) fn largest(&self) -> Option<(usize, Prefix)> {
        self.by_count.last().copied()
    }

    pub(super) fn last_runs(&self, prefix: Prefix) -> impl Iterator<Item = LastRun> {
        let held = self.prefixes.get(&prefix);
        held.into_iter().flatten().map(last_run)
    }

    /// Removes and returns the connections of a prefix that ran at `last` or before.
    pub(super) fn take_idle(&mut self, prefix: Prefix, last: LastRun) -> Vec<Arc<State>> {
        let Some(held) = self.prefixes.get_mut(&prefix) else {
            return Vec::new();
        };
        let before = held.len();
        let victims: Vec<_> = held
            .extract_if(.., |state| last_run(state) <= last)
            .collect();
        if victims.is_empty() {
            return victims;
        }
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

/// When a connection's task last ran. Its address tells connections of one moment apart.
pub(super) type LastRun = (u64, *const State);

fn last_run(state: &Arc<State>) -> LastRun {
    (state.active.load(Ordering::Relaxed), Arc::as_ptr(state))
}
