//! Permits in use and callers that wait.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::iter::from_fn;

use foldhash::quality::RandomState;
use tokio::sync::oneshot;

use super::{Denied, Permit, Sharing};

#[derive(Debug)]
pub(super) struct State<K: Clone + Eq + Hash> {
    permits: usize,
    sharing: Sharing<K>,
    /// Bound on all queues together.
    most_waiting: usize,
    pub(super) used: usize,
    waiting: usize,
    /// Keys that have permits in use, or wait.
    keys: HashMap<K, Line<K>, RandomState>,
    /// Keys that wait and may have a permit when one comes free, in the order of turns.
    round: BTreeMap<Turn, K>,
    /// Number of the last caller, or turn.
    last: u64,
}

/// Permits and callers of one key.
#[derive(Debug)]
struct Line<K: Clone + Eq + Hash> {
    used: usize,
    /// Number of the key's turn, while callers wait.
    turn: u64,
    /// Callers with their numbers, which grow.
    queue: VecDeque<(u64, Caller<K>)>,
}

type Caller<K> = oneshot::Sender<Permit<K>>;

/// Order of keys: first those without their share.
type Turn = (bool, u64);

/// Callers for which permits count already.
pub(super) type Passed<K> = Vec<(K, Caller<K>)>;

impl<K: Clone + Eq + Hash> State<K> {
    pub(super) fn new(permits: usize, sharing: Sharing<K>, most_waiting: usize) -> Self {
        Self {
            permits,
            sharing,
            most_waiting,
            used: 0,
            waiting: 0,
            keys: HashMap::default(),
            round: BTreeMap::new(),
            last: 0,
        }
    }

    pub(super) fn used_by(&self, key: &K) -> usize {
        self.keys.get(key).map_or(0, |line| line.used)
    }

    /// Takes a permit, if the key may have one. No other caller that waits could have it:
    /// each change passes on what can be passed on.
    pub(super) fn take(&mut self, key: &K) -> bool {
        let may_have = self.may_have(key);
        if may_have {
            self.used += 1;
            self.change(key, |line| line.used += 1);
        }
        may_have
    }

    /// Adds a caller. Returns its number.
    pub(super) fn queue(&mut self, key: &K) -> Result<(u64, oneshot::Receiver<Permit<K>>), Denied> {
        if self.waiting >= self.most_waiting {
            self.make_room(key)?;
        }
        let (caller, permit) = oneshot::channel();
        let number = self.next_number();
        self.waiting += 1;
        self.change(key, |line| {
            if line.queue.is_empty() {
                line.turn = number;
            }
            line.queue.push_back((number, caller));
        });
        Ok((number, permit))
    }

    /// Removes a caller, if it still waits.
    pub(super) fn leave(&mut self, key: &K, number: u64) {
        let left = self.change(key, |line| {
            let found = line
                .queue
                .binary_search_by_key(&number, |(number, _)| *number);
            line.queue.remove(found.ok()?)
        });
        self.waiting -= usize::from(left.is_some());
    }

    /// Takes a permit back. Until the first caller is chosen it counts for its key: one that
    /// had its whole share goes after others.
    pub(super) fn give_back(&mut self, key: &K, rests: bool) -> Passed<K> {
        self.used -= usize::from(!rests);
        let first = self.pass_on();
        self.change(key, |line| line.used -= 1);
        // With `FewerThanLeft`, the key's next caller may have one beside it.
        first
            .into_iter()
            .chain(from_fn(|| self.pass_on()))
            .collect()
    }

    /// Takes a permit back that counts on for its key.
    pub(super) fn rest(&mut self) -> Passed<K> {
        self.used -= 1;
        from_fn(|| self.pass_on()).collect()
    }

    pub(super) fn sated(&self) -> Vec<K> {
        let users = || self.keys.iter().filter(|(_, line)| line.used > 0);
        let share = match self.left() {
            // The last one was taken of an odd number: those with most make room.
            0 => self.used / users().count().max(1),
            left => left,
        };
        let sated = users().filter(|(_, line)| line.used >= share);
        sated.map(|(key, _)| key.clone()).collect()
    }

    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> Vec<&K> {
        self.keys.keys().collect()
    }

    fn left(&self) -> usize {
        self.permits - self.used
    }

    fn may_have(&self, key: &K) -> bool {
        let (left, used) = (self.left(), self.used_by(key));
        left > 0
            && match self.sharing {
                Sharing::FewerThanLeft => used < left,
                Sharing::AtMost(most) => used < most(key),
                Sharing::WhileOthersWait(_) => true,
            }
    }

    /// Takes the next caller out of its queue, and a permit for it. Its key then has the
    /// last turn.
    fn pass_on(&mut self) -> Option<(K, Caller<K>)> {
        if self.left() == 0 {
            return None;
        }
        let mut keys = self.round.values();
        let key = keys.find(|key| self.may_have(key))?.clone();
        let turn = self.next_number();
        let (_, caller) = self.change(&key, |line| {
            line.used += 1;
            line.turn = turn;
            line.queue.pop_front()
        })?;
        self.used += 1;
        self.waiting -= 1;
        Some((key, caller))
    }

    /// Refuses the newest caller of the longest queue.
    ///
    /// # Errors
    /// [`Denied::Full`], if the key's own queue is about as long.
    fn make_room(&mut self, key: &K) -> Result<(), Denied> {
        let own = self.keys.get(key).map_or(0, |line| line.queue.len());
        let longest = self.keys.iter().max_by_key(|(_, line)| line.queue.len());
        let longest = longest.filter(|(_, line)| line.queue.len() > own + 1);
        let longest = longest.map(|(key, _)| key.clone()).ok_or(Denied::Full)?;
        self.waiting -= 1;
        // Dropping the sender refuses its caller.
        self.change(&longest, |line| drop(line.queue.pop_back()));
        Ok(())
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Changes the line of a key, and its place in the round.
    fn change<T>(&mut self, key: &K, change: impl FnOnce(&mut Line<K>) -> T) -> T {
        let mut entry = match self.keys.entry(key.clone()) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Line {
                used: 0,
                turn: 0,
                queue: VecDeque::new(),
            }),
        };
        let line = entry.get_mut();
        if let Some(turn) = self.sharing.turn(key, line) {
            self.round.remove(&turn);
        }
        let changed = change(line);
        if let Some(turn) = self.sharing.turn(key, line) {
            self.round.insert(turn, key.clone());
        }
        if line.used == 0 && line.queue.is_empty() {
            entry.remove();
        }
        changed
    }
}

impl<K: Clone + Eq + Hash> Sharing<K> {
    /// Returns the turn of a key; none if nobody waits, or it has all that it may have.
    fn turn(&self, key: &K, line: &Line<K>) -> Option<Turn> {
        let has_share = match self {
            Self::FewerThanLeft => false,
            Self::AtMost(most) if line.used >= most(key) => return None,
            Self::AtMost(_) => false,
            Self::WhileOthersWait(share) => line.used >= *share,
        };
        (!line.queue.is_empty()).then_some((has_share, line.turn))
    }
}
