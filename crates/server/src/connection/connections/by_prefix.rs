//! Open connections of one worker, by the client's prefix.

use std::cmp::{Ordering, Reverse};
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use foldhash::quality::RandomState;
use futures_util::task::AtomicWaker;
use tokio::time::Instant;

use super::MIN_IDLE;
use crate::limits::budget::Prefix;
use crate::limits::timeouts::ConnTimeouts;

/// Table of a worker's open connections.
#[derive(Debug, Default)]
pub(super) struct ByPrefix {
    /// Connections, those of proxies that have not named a client included.
    pub(super) total: usize,
    pub(super) prefixes: HashMap<Prefix, Held, RandomState>,
    /// Prefixes of each group by how many connections they hold.
    pub(super) by_count: BTreeSet<(Group, usize, Prefix)>,
    /// Connections of each wider prefix: who has one has up to 256 of the others.
    pub(super) wider: HashMap<Prefix, usize, RandomState>,
    /// Prefix that was asked last to make room.
    asked: Option<Prefix>,
}

/// Prefixes that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    All,
    /// Prefixes within a wider one.
    Within(Prefix),
    /// The wider prefixes themselves.
    Wider,
}

/// Prefixes that are asked to make room: the largest of all, or of a wider one.
struct LargestGroup {
    group: Group,
    /// Connections of each.
    most: usize,
    /// Connections of that group, as they are compared: those of its wider prefix, or of one
    /// prefix times [`SHARES`].
    part: usize,
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
    /// turn: each may be too active to make room. Takes an active one if none is idle, and
    /// `newcomer` holds fewer.
    pub(super) fn take_longest_idle(
        &mut self,
        newcomer: Prefix,
        now: Instant,
    ) -> Option<(Prefix, Arc<State>)> {
        let largest_group = self.largest_group()?;
        let asked = self.in_turn(&largest_group, newcomer);
        for prefix in &asked {
            self.asked = Some(*prefix);
            if let Some(state) = self.take(*prefix, MIN_IDLE, now) {
                return Some((*prefix, state));
            }
        }
        let first = *asked.first()?;
        if !self.is_larger(&largest_group, first, newcomer) {
            return None;
        }
        let state = self.take(first, Duration::ZERO, now)?;
        Some((first, state))
    }

    /// Returns the group that must make room: the largest prefixes of the largest wider prefix if that holds
    /// more than [`SHARES`] times as many as any prefix, else the largest of all.
    fn largest_group(&self) -> Option<LargestGroup> {
        let (most, _) = self.largest(Group::All)?;
        let (part, wider) = self.largest(Group::Wider)?;
        if part <= most * SHARES {
            return Some(LargestGroup {
                group: Group::All,
                most,
                part: most * SHARES,
            });
        }
        let group = Group::Within(wider);
        let (most, _) = self.largest(group)?;
        Some(LargestGroup { group, most, part })
    }

    /// Returns whether a prefix of that group has a larger part than `newcomer` will have.
    /// Within one wider prefix, they are compared by themselves.
    fn is_larger(&self, largest_group: &LargestGroup, prefix: Prefix, newcomer: Prefix) -> bool {
        let own = self.prefixes.get(&newcomer).map_or(0, |held| held.open) + 1;
        if prefix.wider() == newcomer.wider() {
            return largest_group.most > own;
        }
        let wider = self.open_within(newcomer.wider()) + 1;
        largest_group.part > wider.max(own * SHARES)
    }

    /// Returns the largest prefix of a group, and how many connections it holds.
    fn largest(&self, group: Group) -> Option<(usize, Prefix)> {
        // No prefix holds 0, or the most that a number can be.
        let [first, behind] = [0, usize::MAX].map(|count| (group, count, smallest()));
        let (_, most, prefix) = self.by_count.range(first..behind).next_back()?;
        Some((*most, *prefix))
    }

    /// Returns `newcomer`, if it is of that group, and up to [`ASKED`] prefixes of that group
    /// behind the one that was asked last.
    fn in_turn(&self, largest_group: &LargestGroup, newcomer: Prefix) -> Vec<Prefix> {
        let LargestGroup { group, most, .. } = *largest_group;
        let [first, behind] = [most, most + 1].map(|count| (group, count, smallest()));
        let asked = self.asked.map_or(behind, |asked| (group, most, asked));
        let turns = self.by_count.range(first..asked).rev();
        let turns = turns.chain(self.by_count.range(first..behind).rev());
        let turns = turns.map(|(_, _, prefix)| *prefix);
        let is_one = self.by_count.contains(&(group, most, newcomer));
        let first = is_one.then_some(newcomer);
        first.into_iter().chain(turns.take(ASKED)).collect()
    }

    /// Removes and returns the longest idle connection of a prefix, if it was idle for
    /// `least`.
    fn take(&mut self, prefix: Prefix, least: Duration, now: Instant) -> Option<Arc<State>> {
        let held = self.prefixes.get_mut(&prefix)?;
        let state = held.take_longest_idle(least, now)?;
        self.remove(prefix, &state);
        Some(state)
    }

    fn recount(&mut self, prefix: Prefix, before: usize, after: usize) {
        let wider = prefix.wider();
        let open = self.open_within(wider);
        let left = open + after - before;
        for (group, prefix, before, after) in [
            (Group::All, prefix, before, after),
            (Group::Within(wider), prefix, before, after),
            (Group::Wider, wider, open, left),
        ] {
            self.by_count.remove(&(group, before, prefix));
            if after > 0 {
                self.by_count.insert((group, after, prefix));
            }
        }
        if after == 0 {
            self.prefixes.remove(&prefix);
        }
        match left {
            0 => self.wider.remove(&wider),
            _ => self.wider.insert(wider, left),
        };
    }

    fn open_within(&self, wider: Prefix) -> usize {
        self.wider.get(&wider).copied().unwrap_or(0)
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
            // Requests are counted from the end of the handshake on.
            let requests = noted.state.requests.get();
            let active = requests.map(|requests| requests.last_active(now));
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

/// Returns the prefix that is ordered before all others.
fn smallest() -> Prefix {
    IpAddr::V6(Ipv6Addr::UNSPECIFIED).into()
}

/// Ended connections of a prefix that stay noted, besides as many as are open.
const MOST_ENDED: usize = 16;
/// Prefixes whose connections a wider prefix may hold: as many as it has budgets of absent
/// names.
const SHARES: usize = 16;
/// Largest prefixes that are asked for one new connection. Where all hold one
/// connection, all are the largest: most of thousands are idle.
const ASKED: usize = 64;
