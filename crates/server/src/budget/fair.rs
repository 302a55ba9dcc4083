//! Fair semaphore: a bounded number of permits, given round robin to the prefixes
//! that wait. Bounds the loads in flight, and the long signatures.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use tokio::sync::oneshot;

use super::{Denied, Prefix};

/// Bounded number of permits. A free permit goes to the first caller. When there
/// is none, each prefix has a queue, and returned permits go to the queues round
/// robin. When no more callers may wait, the newest of the
/// longest queue is refused in favour of a prefix with fewer.
#[derive(Debug)]
pub(crate) struct FairSemaphore {
    state: Mutex<State>,
    /// Permits of one prefix in use while others wait.
    share: usize,
    /// Bound on all queues together.
    waiting: usize,
}

#[derive(Debug)]
struct State {
    idle: usize,
    waiting: usize,
    /// Prefixes that have permits in use, or wait.
    prefixes: HashMap<Prefix, Line, RandomState>,
    /// Round-robin order of the prefixes that wait, each once.
    turns: VecDeque<Prefix>,
}

#[derive(Debug, Default)]
struct Line {
    in_flight: usize,
    queue: VecDeque<oneshot::Sender<FairPermit>>,
}

/// Permit of a [`FairSemaphore`]; dropping it passes the permit on.
#[derive(Debug)]
pub(crate) struct FairPermit(Option<(Arc<FairSemaphore>, Prefix)>);

impl FairSemaphore {
    pub(crate) fn new(in_flight: usize, share: usize, waiting: usize) -> Self {
        Self {
            state: Mutex::new(State {
                idle: in_flight,
                waiting: 0,
                prefixes: HashMap::default(),
                turns: VecDeque::new(),
            }),
            share,
            waiting,
        }
    }

    /// Waits for a permit; dropping the future leaves the queue.
    pub(crate) async fn enter(semaphore: &Arc<Self>, prefix: Prefix) -> Result<FairPermit, Denied> {
        let turn = {
            let mut state = semaphore.lock();
            if state.idle > 0 {
                state.idle -= 1;
                state.prefixes.entry(prefix).or_default().in_flight += 1;
                return Ok(FairPermit(Some((Arc::clone(semaphore), prefix))));
            }
            state.queue(prefix, semaphore.waiting)?
        };
        // The sender is dropped without sending only if it makes room.
        turn.await.map_err(|_| Denied::Full)
    }

    /// Passes a permit of `prefix` to the next caller. If that caller has left,
    /// the dropped permit passes on again.
    fn pass_on(self: &Arc<Self>, prefix: Prefix) {
        let next = self.lock().pass_on(prefix, self.share);
        if let Some((prefix, next)) = next {
            let _ = next.send(FairPermit(Some((Arc::clone(self), prefix))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn queue(
        &mut self,
        prefix: Prefix,
        bound: usize,
    ) -> Result<oneshot::Receiver<FairPermit>, Denied> {
        if self.waiting >= bound {
            self.make_room(prefix, bound)?;
        }
        let line = self.prefixes.entry(prefix).or_default();
        if line.queue.is_empty() {
            self.turns.push_back(prefix);
        }
        let (sender, receiver) = oneshot::channel();
        line.queue.push_back(sender);
        self.waiting += 1;
        Ok(receiver)
    }

    /// Drops callers that left; if there are none, the newest of the longest
    /// queue. Refuses a prefix whose own queue is about as long.
    fn make_room(&mut self, prefix: Prefix, bound: usize) -> Result<(), Denied> {
        for line in self.prefixes.values_mut() {
            let before = line.queue.len();
            line.queue.retain(|waiting| !waiting.is_closed());
            self.waiting -= before - line.queue.len();
        }
        self.turns.retain(|turn| {
            let line = self.prefixes.get(turn);
            line.is_some_and(|line| !line.queue.is_empty())
        });
        self.prefixes
            .retain(|_, line| line.in_flight > 0 || !line.queue.is_empty());
        if self.waiting < bound {
            return Ok(());
        }
        let own = self
            .prefixes
            .get(&prefix)
            .map_or(0, |line| line.queue.len());
        let lines = self.prefixes.values_mut();
        let longest = lines.max_by_key(|line| line.queue.len());
        let longest = longest.filter(|line| line.queue.len() > own + 1);
        // Dropping the sender refuses its caller.
        longest
            .and_then(|line| line.queue.pop_back())
            .ok_or(Denied::Full)?;
        self.waiting -= 1;
        Ok(())
    }

    /// Takes a permit of `prefix` back and returns its next caller.
    fn pass_on(
        &mut self,
        prefix: Prefix,
        share: usize,
    ) -> Option<(Prefix, oneshot::Sender<FairPermit>)> {
        if let Some(line) = self.prefixes.get_mut(&prefix) {
            line.in_flight -= 1;
            if line.in_flight == 0 && line.queue.is_empty() {
                self.prefixes.remove(&prefix);
            }
        }
        let Some((next, sender)) = self.next(share) else {
            self.idle += 1;
            return None;
        };
        if let Some(line) = self.prefixes.get_mut(&next) {
            line.in_flight += 1;
        }
        Some((next, sender))
    }

    /// Returns the next caller: of the first prefix below its share, else of
    /// the first. The prefix then moves to the end.
    fn next(&mut self, share: usize) -> Option<(Prefix, oneshot::Sender<FairPermit>)> {
        loop {
            let prefixes = &self.prefixes;
            let below = |prefix| {
                prefixes
                    .get(prefix)
                    .is_some_and(|line| line.in_flight < share)
            };
            let index = self.turns.iter().position(below).unwrap_or(0);
            let prefix = self.turns.remove(index)?;
            let line = self.prefixes.get_mut(&prefix)?;
            while let Some(sender) = line.queue.pop_front() {
                self.waiting -= 1;
                if sender.is_closed() {
                    continue;
                }
                if !line.queue.is_empty() {
                    self.turns.push_back(prefix);
                }
                return Some((prefix, sender));
            }
            if line.in_flight == 0 {
                self.prefixes.remove(&prefix);
            }
        }
    }
}

impl Drop for FairPermit {
    fn drop(&mut self) {
        if let Some((semaphore, prefix)) = self.0.take() {
            semaphore.pass_on(prefix);
        }
    }
}
