//! Bounds of one server: connections in use, requests that wait for one, retries.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Connections of one server that are in use, and the requests that wait.
///
/// Each site brings its own bounds; the count is common to all sites and workers.
/// Hosts that wait get returned slots in turn. When no more requests may wait, the
/// newest of the host with most of them is refused in favour of a host with fewer.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Ordering with `waiting` is `SeqCst`: either a returned slot is seen by the
    /// request that begins to wait, or the request by the one that returns it.
    in_use: AtomicU32,
    waiting: AtomicU32,
    queue: Mutex<Queue>,
}

/// Right to use one connection to a server. Dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Slot(Arc<Slots>);

/// Bounds of a site on one server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) connections: u32,
    pub(super) waiting: u32,
}

/// Reason why a request gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// Too many requests wait already.
    Full,
    /// No slot came free in time.
    TimedOut,
}

/// Requests that wait, by host.
#[derive(Debug, Default)]
struct Queue {
    lines: HashMap<u64, VecDeque<Waiting>, RandomState>,
    /// Hosts in the order of their turns, each once.
    turns: VecDeque<u64>,
}

#[derive(Debug)]
struct Waiting {
    connections: u32,
    slot: oneshot::Sender<Slot>,
}

impl Slots {
    /// Returns whether a request would get a slot at once.
    pub(super) fn has_room(&self, connections: u32) -> bool {
        self.in_use.load(Ordering::Relaxed) < connections
            && self.waiting.load(Ordering::Relaxed) == 0
    }

    /// Waits for a slot until `until`. Dropping the future leaves the queue.
    pub(super) async fn enter(
        slots: &Arc<Self>,
        host: u64,
        bounds: Bounds,
        until: Instant,
    ) -> Result<Slot, Denied> {
        // Requests that wait already come first.
        if slots.waiting.load(Ordering::SeqCst) == 0 && slots.take(bounds.connections) {
            return Ok(Slot(Arc::clone(slots)));
        }
        let turn = slots.queue(host, bounds)?;
        // A slot may have come free before this request stood in the queue.
        slots.pass_on();
        match timeout_at(until, turn).await {
            // The sender is dropped without sending only if it makes room.
            Ok(turn) => turn.map_err(|_| Denied::Full),
            Err(_) => Err(Denied::TimedOut),
        }
    }

    fn take(&self, connections: u32) -> bool {
        let more = |used| (used < connections).then_some(used + 1);
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        self.in_use.fetch_update(set, fetch, more).is_ok()
    }

    fn queue(&self, host: u64, bounds: Bounds) -> Result<oneshot::Receiver<Slot>, Denied> {
        if bounds.waiting == 0 {
            return Err(Denied::Full);
        }
        let (slot, turn) = oneshot::channel();
        let mut queue = self.lock();
        if self.waiting.load(Ordering::SeqCst) >= bounds.waiting {
            let left = queue.make_room(host, bounds.waiting);
            self.waiting.store(queue.length(), Ordering::SeqCst);
            left?;
        }
        let connections = bounds.connections;
        queue.push(host, Waiting { connections, slot });
        self.waiting.fetch_add(1, Ordering::SeqCst);
        Ok(turn)
    }

    /// Gives free slots to the requests that wait.
    fn pass_on(self: &Arc<Self>) {
        while self.waiting.load(Ordering::SeqCst) > 0 {
            let next = {
                let mut queue = self.lock();
                let next = queue.next(|connections| self.take(connections));
                self.waiting.store(queue.length(), Ordering::SeqCst);
                next
            };
            let Some(next) = next else { return };
            // Outside of the lock: a request that left gives its slot back here.
            let _ = next.send(Slot(Arc::clone(self)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.in_use.fetch_sub(1, Ordering::SeqCst);
        self.0.pass_on();
    }
}

impl Queue {
    fn length(&self) -> u32 {
        let length: usize = self.lines.values().map(VecDeque::len).sum();
        u32::try_from(length).unwrap_or(u32::MAX)
    }

    fn push(&mut self, host: u64, waiting: Waiting) {
        let line = self.lines.entry(host).or_default();
        if line.is_empty() {
            self.turns.push_back(host);
        }
        line.push_back(waiting);
    }

    /// Removes requests that left. If that makes no room, drops the newest of the
    /// longest line; a host whose own line is about as long is refused.
    fn make_room(&mut self, host: u64, bound: u32) -> Result<(), Denied> {
        for line in self.lines.values_mut() {
            line.retain(|waiting| !waiting.slot.is_closed());
        }
        self.sweep();
        if self.length() < bound {
            return Ok(());
        }
        let own = self.lines.get(&host).map_or(0, VecDeque::len);
        let longest = self.lines.values_mut().max_by_key(|line| line.len());
        let longest = longest.filter(|line| line.len() > own + 1);
        // Dropping the sender refuses its request.
        longest
            .and_then(VecDeque::pop_back)
            .map(drop)
            .ok_or(Denied::Full)
    }

    fn sweep(&mut self) {
        self.lines.retain(|_, line| !line.is_empty());
        self.turns.retain(|host| self.lines.contains_key(host));
    }

    /// Returns the next request that `take` gets a slot for. Its host moves to the
    /// end of the turns.
    fn next(&mut self, take: impl Fn(u32) -> bool) -> Option<oneshot::Sender<Slot>> {
        for line in self.lines.values_mut() {
            while line.front().is_some_and(|first| first.slot.is_closed()) {
                line.pop_front();
            }
        }
        self.sweep();
        let gets = |host: &u64| {
            let first = self.lines.get(host).and_then(VecDeque::front);
            first.is_some_and(|first| take(first.connections))
        };
        let turn = self.turns.iter().position(gets)?;
        let host = self.turns.remove(turn)?;
        let line = self.lines.get_mut(&host)?;
        let first = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&host);
        } else {
            self.turns.push_back(host);
        }
        Some(first.slot)
    }
}

/// Budget of retries on one server: a fifth of its requests and three per second.
/// A server that fails all requests thus gets a fifth more of them, not twice as
/// many.
#[derive(Debug)]
pub(super) struct Retries {
    /// Thousandths of a retry. Relaxed, like `filled`: a race loses or adds a part
    /// of one retry.
    left: AtomicU64,
    /// Time of the last refill, in milliseconds.
    filled: AtomicU64,
}

impl Retries {
    pub(super) fn new(now: u64) -> Self {
        Self {
            left: AtomicU64::new(FIRST * RETRY),
            filled: AtomicU64::new(now),
        }
    }

    /// Notes a request that is no retry.
    pub(super) fn request(&self) {
        self.add(PER_REQUEST);
    }

    /// Takes one retry, if there is one.
    pub(super) fn take(&self, now: u64) -> bool {
        let filled = self.filled.fetch_max(now, Ordering::Relaxed);
        self.add(now.saturating_sub(filled).saturating_mul(PER_SECOND));
        let less = |left: u64| left.checked_sub(RETRY);
        let relaxed = Ordering::Relaxed;
        self.left.fetch_update(relaxed, relaxed, less).is_ok()
    }

    fn add(&self, more: u64) {
        let left = self.left.load(Ordering::Relaxed);
        if left < MOST {
            let left = left.saturating_add(more).min(MOST);
            self.left.store(left, Ordering::Relaxed);
        }
    }
}

/// One retry, in thousandths.
const RETRY: u64 = 1000;
/// Thousandths that a request adds: a fifth of a retry.
const PER_REQUEST: u64 = 200;
/// Retries per second, which are thousandths per millisecond.
const PER_SECOND: u64 = 3;
/// Retries at the start: enough until a server that is gone is ejected.
const FIRST: u64 = 10;
/// Most that is saved up: 100 retries.
const MOST: u64 = 100 * RETRY;

#[cfg(test)]
mod tests;
