//! Open connections of one worker, by the client's prefix.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::quality::RandomState;
use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::MIN_IDLE;
use crate::budget::Prefix;
use crate::timeouts::ConnTimeouts;

/// Table of a worker's open connections.
#[derive(Debug, Default)]
pub(super) struct ByPrefix {
    /// Connections, those of proxies that have not named a client included.
    pub(super) total: usize,
    pub(super) prefixes: HashMap<Prefix, Held, RandomState>,
    /// Prefixes by how many connections they hold.
    pub(super) by_count: BTreeSet<(usize, Prefix)>,
    /// Prefix that was asked last to make room.
    asked: Option<Prefix>,
}

/// Connections of one prefix.
#[derive(Debug, Default)]
pub(super) struct Held {
    open: usize,
    /// Connections, the longest idle first as far as is noted. Some have ended:
    /// [`ByPrefix::remove`] bounds them.
    pub(super) noted: BinaryHeap<Reverse<Noted>>,
}

/// Connection, and when it was active when it was last looked at.
#[derive(Debug)]
pub(super) struct Noted {
    active: Instant,
    state: Arc<State>,
}

/// State of a connection that other tasks read, and that marks it for closing.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Tells the task to end. Release in `give_up` pairs with Acquire in `poll`.
    pub(super) given_up: AtomicBool,
    /// The connection is in no table any more. Relaxed: only used under the table's lock.
    ended: AtomicBool,
    /// Requests, once the handshake is done.
    pub(super) requests: OnceLock<Arc<ConnTimeouts>>,
    pub(super) task: AtomicWaker,
}

impl ByPrefix {
    pub(super) fn add(&mut self, prefix: Prefix, now: Instant) -> Arc<State> {
        let state = Arc::new(State::default());
        let held = self.prefixes.entry(prefix).or_default();
        held.noted.push(Reverse(Noted {
            active: now,
            state: Arc::clone(&state),
        }));
        held.open += 1;
        let open = held.open;
        self.total += 1;
        self.recount(prefix, open - 1, open);
        state
    }

    /// Removes a connection that ends. What was given up is removed already.
    pub(super) fn remove(&mut self, prefix: Prefix, state: &State) {
        if state.ended.swap(true, Relaxed) {
            return;
        }
        let held = self.prefixes.get_mut(&prefix);
        let held = held.expect("a prefix stays while a connection of it does");
        held.open -= 1;
        let open = held.open;
        // Amortized: half of the entries go.
        if held.noted.len() > 2 * open + MOST_ENDED {
            held.noted.retain(|Reverse(noted)| !noted.state.has_ended());
        }
        self.total -= 1;
        self.recount(prefix, open + 1, open);
    }

    /// Removes and returns the connection that makes room for a new one of `newcomer`, and
    /// its prefix. Of the largest prefixes, asks `newcomer` first, then up to [`ASKED`] in
    /// turn: each may be too active to make room.
    pub(super) fn take_longest_idle(
        &mut self,
        newcomer: Prefix,
        now: Instant,
    ) -> Option<(Prefix, Arc<State>)> {
        let (most, last) = *self.by_count.last()?;
        let own = self.prefixes.get(&newcomer).map_or(0, |held| held.open);
        let least = match most > own + 1 {
            true => Duration::ZERO,
            false => MIN_IDLE,
        };
        let largest = |(count, _): &&(usize, Prefix)| *count == most;
        let next = self.by_count.range(..(most, self.asked.unwrap_or(last)));
        let again = self.by_count.iter();
        let turns = next.rev().take_while(largest);
        let turns = turns.chain(again.rev().take_while(largest));
        let turns = turns.map(|(_, prefix)| *prefix);
        let first = (own == most).then_some(newcomer);
        let crowds: Vec<_> = first.into_iter().chain(turns.take(ASKED)).collect();
        crowds.into_iter().find_map(|crowd| {
            self.asked = Some(crowd);
            let held = self.prefixes.get_mut(&crowd)?;
            let state = held.take_longest_idle(least, now)?;
            self.remove(crowd, &state);
            Some((crowd, state))
        })
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

impl Held {
    /// Takes the longest idle connection, if it was idle for `least`.
    ///
    /// Activity only grows: who comes first by what was noted, and was not active since, is
    /// the longest idle. A look at one that was active costs its client a request. A request
    /// under way counts as activity, once per [`MIN_IDLE`]: connections with one are not
    /// looked at more often.
    fn take_longest_idle(&mut self, least: Duration, now: Instant) -> Option<Arc<State>> {
        loop {
            let mut first = self.noted.peek_mut()?;
            let Reverse(noted) = &*first;
            if noted.state.has_ended() {
                PeekMut::pop(first);
                continue;
            }
            let fresh = noted.active + MIN_IDLE > now;
            let active = noted.state.last_active(now);
            match active.filter(|active| *active > noted.active) {
                Some(active) if active < now || !fresh => first.0.active = active,
                _ if noted.active + least > now => return None,
                _ => return Some(PeekMut::pop(first).0.state),
            }
        }
    }
}

impl State {
    /// Tells the connection's task to end.
    pub(super) fn give_up(&self) {
        self.given_up.store(true, Release);
        self.task.wake();
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Returns when the connection was last active: `now` while a request is under way.
    /// None before the end of its handshake.
    fn last_active(&self, now: Instant) -> Option<Instant> {
        let requests = self.requests.get()?;
        Some(requests.last_active(now))
    }
}

impl Ord for Noted {
    fn cmp(&self, other: &Self) -> Ordering {
        self.active.cmp(&other.active)
    }
}

impl PartialOrd for Noted {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Noted {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Noted {}

/// Ended connections of a prefix that stay noted, besides as many as are open.
const MOST_ENDED: usize = 16;
/// Largest prefixes that are asked for one new connection. Where all hold one
/// connection, all are the largest: most of thousands are idle.
const ASKED: usize = 64;
