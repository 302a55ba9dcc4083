//! Fair semaphore: a bounded number of permits, given round robin to the groups
//! of callers that wait. Bounds the loads in flight and the long signatures, by
//! client prefix, and the clients that wait for a certificate, by tenant.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Denied;

/// Bounded number of permits. A free permit goes to the first caller. When there
/// is none, each group has a queue, and returned permits go to the queues round
/// robin; that of a group with its whole share goes to another one first. When no more callers may wait, the newest of the longest queue is
/// refused in favour of a group with fewer. `K` names the group of a caller.
#[derive(Debug)]
pub(crate) struct FairSemaphore<K: Group> {
    state: Mutex<State<K>>,
    /// Permits of one group in use while others wait.
    share: usize,
    /// Bound on all queues together.
    waiting: usize,
}

/// Name of a group of callers.
pub(crate) trait Group: Clone + Eq + Hash {}

impl<K: Clone + Eq + Hash> Group for K {}

#[derive(Debug)]
struct State<K: Group> {
    idle: usize,
    waiting: usize,
    /// Groups that have permits in use, or wait.
    groups: HashMap<K, Line<K>, RandomState>,
    /// Round-robin order of the groups that wait, each once.
    turns: VecDeque<K>,
}

#[derive(Debug)]
struct Line<K: Group> {
    in_flight: usize,
    /// Pauses that are not over.
    resting: usize,
    queue: VecDeque<oneshot::Sender<FairPermit<K>>>,
}

/// Permit of a [`FairSemaphore`]; dropping it passes the permit on.
#[derive(Debug)]
pub(crate) struct FairPermit<K: Group>(Option<(Arc<FairSemaphore<K>>, K)>);

impl<K: Group + Send + 'static> FairPermit<K> {
    /// Passes the permit on. Its group has none for `pause`.
    pub(crate) fn rest(mut self, pause: Duration) {
        let Some((semaphore, group)) = self.0.take() else {
            return;
        };
        if let Some(line) = semaphore.lock().groups.get_mut(&group) {
            line.resting += 1;
        }
        semaphore.pass_on(&group);
        tokio::spawn(async move {
            sleep(pause).await;
            semaphore.wake(&group);
        });
    }
}

impl<K: Group> FairSemaphore<K> {
    pub(crate) fn new(in_flight: usize, share: usize, waiting: usize) -> Self {
        Self {
            state: Mutex::new(State {
                idle: in_flight,
                waiting: 0,
                groups: HashMap::default(),
                turns: VecDeque::new(),
            }),
            share,
            waiting,
        }
    }

    /// Waits for a permit; dropping the future leaves the queue.
    pub(crate) async fn enter(semaphore: &Arc<Self>, group: K) -> Result<FairPermit<K>, Denied> {
        let turn = {
            let mut state = semaphore.lock();
            let rests = |line: &Line<K>| line.resting > 0;
            if state.idle > 0 && !state.groups.get(&group).is_some_and(rests) {
                state.idle -= 1;
                state.groups.entry(group.clone()).or_default().in_flight += 1;
                return Ok(FairPermit(Some((Arc::clone(semaphore), group))));
            }
            state.queue(group, semaphore.waiting)?
        };
        // The sender is dropped without sending only if it makes room.
        turn.await.map_err(|_| Denied::Full)
    }

    /// Passes a permit of `group` to the next caller. If that caller has left,
    /// the dropped permit passes on again.
    fn pass_on(self: &Arc<Self>, group: &K) {
        let next = self.lock().pass_on(group, self.share);
        if let Some((group, next)) = next {
            let _ = next.send(FairPermit(Some((Arc::clone(self), group))));
        }
    }

    /// Ends a group's pause: its next caller gets a permit if one is idle.
    fn wake(self: &Arc<Self>, group: &K) {
        let mut state = self.lock();
        let is_idle = state.idle > 0;
        let Some(line) = state.groups.get_mut(group) else {
            return;
        };
        line.resting -= 1;
        if is_idle {
            line.in_flight += 1;
            state.idle -= 1;
            drop(state);
            self.pass_on(group);
        } else if line.is_unused() {
            state.groups.remove(group);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Group> State<K> {
    fn queue(
        &mut self,
        group: K,
        bound: usize,
    ) -> Result<oneshot::Receiver<FairPermit<K>>, Denied> {
        if self.waiting >= bound {
            self.make_room(&group, bound)?;
        }
        let line = self.groups.entry(group.clone()).or_default();
        if line.queue.is_empty() {
            self.turns.push_back(group);
        }
        let (sender, receiver) = oneshot::channel();
        line.queue.push_back(sender);
        self.waiting += 1;
        Ok(receiver)
    }

    /// Drops callers that left; if there are none, the newest of the longest
    /// queue. Refuses a group whose own queue is about as long.
    fn make_room(&mut self, group: &K, bound: usize) -> Result<(), Denied> {
        for line in self.groups.values_mut() {
            let before = line.queue.len();
            line.queue.retain(|waiting| !waiting.is_closed());
            self.waiting -= before - line.queue.len();
        }
        self.turns.retain(|turn| {
            let line = self.groups.get(turn);
            line.is_some_and(|line| !line.queue.is_empty())
        });
        self.groups.retain(|_, line| !line.is_unused());
        if self.waiting < bound {
            return Ok(());
        }
        let own = self.groups.get(group).map_or(0, |line| line.queue.len());
        let lines = self.groups.values_mut();
        let longest = lines.max_by_key(|line| line.queue.len());
        let longest = longest.filter(|line| line.queue.len() > own + 1);
        // Dropping the sender refuses its caller.
        longest
            .and_then(|line| line.queue.pop_back())
            .ok_or(Denied::Full)?;
        self.waiting -= 1;
        Ok(())
    }

    /// Takes a permit of `group` back and returns its next caller.
    fn pass_on(&mut self, group: &K, share: usize) -> Option<(K, oneshot::Sender<FairPermit<K>>)> {
        // The permit still counts: a group that has just used its share goes after others.
        let next = self.next(share);
        match &next {
            Some((next, _)) => {
                if let Some(line) = self.groups.get_mut(next) {
                    line.in_flight += 1;
                }
            }
            None => self.idle += 1,
        }
        if let Some(line) = self.groups.get_mut(group) {
            line.in_flight -= 1;
            if line.is_unused() {
                self.groups.remove(group);
            }
        }
        next
    }

    /// Returns the next caller: of the first group below its share, else of
    /// the first; of none that rests. The group then moves to the end.
    fn next(&mut self, share: usize) -> Option<(K, oneshot::Sender<FairPermit<K>>)> {
        loop {
            let groups = &self.groups;
            let first = |most: usize| {
                let may = |line: &Line<K>| line.resting == 0 && line.in_flight < most;
                let mut turns = self.turns.iter();
                turns.position(|group| groups.get(group).is_some_and(may))
            };
            let index = first(share).or_else(|| first(usize::MAX))?;
            let group = self.turns.remove(index)?;
            let line = self.groups.get_mut(&group)?;
            while let Some(sender) = line.queue.pop_front() {
                self.waiting -= 1;
                if sender.is_closed() {
                    continue;
                }
                if !line.queue.is_empty() {
                    self.turns.push_back(group.clone());
                }
                return Some((group, sender));
            }
            if line.is_unused() {
                self.groups.remove(&group);
            }
        }
    }
}

impl<K: Group> Line<K> {
    fn is_unused(&self) -> bool {
        self.in_flight == 0 && self.resting == 0 && self.queue.is_empty()
    }
}

impl<K: Group> Default for Line<K> {
    fn default() -> Self {
        Self {
            in_flight: 0,
            resting: 0,
            queue: VecDeque::new(),
        }
    }
}

impl<K: Group> Drop for FairPermit<K> {
    fn drop(&mut self) {
        if let Some((semaphore, group)) = self.0.take() {
            semaphore.pass_on(&group);
        }
    }
}
