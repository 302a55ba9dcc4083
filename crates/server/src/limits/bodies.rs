//! Bytes of bodies and tunnels that connections of HTTP/2 hold: those that came, of a client
//! or an upstream, and were not taken.
//!
//! Windows bound what one connection holds. Over the bound of the process, the connection
//! that holds most, of the client network that holds most, ends.

mod counted;

pub(crate) use counted::InTunnel;

use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::task::Waker;

use foldhash::quality::RandomState;
use futures_util::task::AtomicWaker;

use sekisho_certs::lock;

use crate::limits::budget::Prefix;
use crate::limits::log_limiter::LogLimits;
use crate::observe::metrics::Metrics;

/// Bytes that all connections hold.
#[derive(Debug)]
pub(crate) struct Bodies {
    limit: usize,
    /// Connections that have held [`STEP`] bytes, by the address of their count.
    holders: Mutex<HashMap<usize, Weak<Held>, RandomState>>,
    /// A worker holds it while it chooses connections to end. Others end none meanwhile.
    choosing: Mutex<()>,
    metrics: Arc<Metrics>,
    log_limits: LogLimits,
}

/// Bytes that one connection holds.
///
/// The threads of other workers read `counted` alone, and set it to [`ENDED`]. Relaxed
/// suffices for all fields: no other data hangs on them, and `task` orders an end before
/// its wake-up.
#[derive(Debug)]
pub(crate) struct Held {
    all: Arc<Bodies>,
    prefix: Prefix,
    /// Bytes of requests that came, and that nobody took. Never too few; bytes of a body
    /// that was given up are in it until [`Self::announced`] or [`Self::settle`].
    requests: AtomicUsize,
    /// Sum of the same bodies' frames, each as large as its block at least.
    blocks: AtomicUsize,
    /// Bytes of requests that came since nobody's bytes were held: their blocks are no
    /// larger together.
    since: AtomicUsize,
    /// Bytes of answers and tunnels that an upstream sent, and that were not written to the
    /// socket.
    answers: AtomicUsize,
    /// Bytes that count for the process: whole steps, or [`ENDED`].
    counted: AtomicUsize,
    /// Bytes that the client may send now.
    window: AtomicU32,
    /// The connection is among the holders.
    listed: AtomicBool,
    task: AtomicWaker,
}

impl Bodies {
    /// Makes the count of a process whose connections may hold `limit` bytes.
    pub(crate) fn new(limit: usize, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            limit,
            holders: Mutex::default(),
            choosing: Mutex::default(),
            metrics,
            log_limits: LogLimits::default(),
        })
    }

    /// Makes the count of a connection of this prefix.
    pub(crate) fn holder(self: &Arc<Self>, prefix: Prefix) -> Arc<Held> {
        Arc::new(Held {
            all: Arc::clone(self),
            prefix,
            requests: AtomicUsize::new(0),
            blocks: AtomicUsize::new(0),
            since: AtomicUsize::new(0),
            answers: AtomicUsize::new(0),
            counted: AtomicUsize::new(0),
            window: AtomicU32::new(u32::MAX),
            listed: AtomicBool::new(false),
            task: AtomicWaker::new(),
        })
    }

    fn total(&self) -> usize {
        usize::try_from(self.metrics.body_bytes_held().get()).unwrap_or(usize::MAX)
    }

    /// Ends connections until a sixteenth of the bound is free: the next choice, which
    /// looks at all holders again, then comes 16 MiB later.
    fn make_room(&self) {
        let _choosing = match self.choosing.try_lock() {
            Ok(choosing) => choosing,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let mut holders = self.by_network();
        let sum = |all: &[(usize, Arc<Held>)]| -> usize { all.iter().map(|(held, _)| held).sum() };
        let networks = holders.iter().map(|(prefix, all)| (sum(all), *prefix));
        let mut networks: BinaryHeap<_> = networks.collect();
        let wanted = self.limit - self.limit / SHARES;
        while self.total() > wanted
            && let Some((held, prefix)) = networks.pop()
        {
            let Some((_, largest)) = holders.get_mut(&prefix).and_then(Vec::pop) else {
                continue;
            };
            let freed = largest.uncount();
            largest.task.wake();
            self.metrics.connection_given_up();
            self.log_limits.holds_most(prefix, self.limit);
            networks.push((held.saturating_sub(freed), prefix));
        }
    }

    /// Returns the connections that hold bytes by their networks, the largest last.
    fn by_network(&self) -> HashMap<Prefix, Vec<(usize, Arc<Held>)>, RandomState> {
        let all: Vec<_> = lock(&self.holders)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut networks = HashMap::<Prefix, Vec<_>, RandomState>::default();
        for holder in all {
            let held = holder.counted.load(Relaxed);
            if held != 0 && held != ENDED {
                let holders = networks.entry(holder.prefix).or_default();
                holders.push((held, holder));
            }
        }
        for holders in networks.values_mut() {
            holders.sort_unstable_by_key(|(held, _)| *held);
        }
        networks
    }
}

impl Held {
    /// Notes `bytes` of requests that came, in frames with `blocks` by [`block_of`]. The
    /// client may now send `window` bytes.
    pub(crate) fn came(self: &Arc<Self>, bytes: usize, blocks: usize, window: u32) {
        self.window.store(window, Relaxed);
        if self.requests.fetch_add(bytes, Relaxed) == 0 {
            self.blocks.store(0, Relaxed);
            self.since.store(0, Relaxed);
        }
        self.blocks.fetch_add(blocks, Relaxed);
        self.since.fetch_add(bytes, Relaxed);
        self.count();
    }

    /// Notes that a frame of a request, of so many bytes, was taken.
    pub(crate) fn taken(self: &Arc<Self>, bytes: usize) {
        let held = self.requests.load(Relaxed).saturating_sub(bytes);
        let blocks = self.blocks.load(Relaxed).saturating_sub(block_of(bytes));
        self.requests.store(held, Relaxed);
        self.blocks.store(blocks, Relaxed);
        self.count();
    }

    /// Notes that h2 opens the connection's window again, up to `window`. It does that
    /// for all bytes that were taken or given up: it holds `requests` bytes.
    pub(crate) fn announced(self: &Arc<Self>, requests: usize, window: u32) {
        self.window.store(window, Relaxed);
        let before = self.requests.swap(requests, Relaxed);
        if requests < before {
            let blocks = self.blocks.load(Relaxed).saturating_mul(requests) / before;
            self.blocks.store(blocks, Relaxed);
        }
        self.count();
    }

    /// Notes that no request is in flight: no body is held.
    pub(crate) fn settle(self: &Arc<Self>) {
        if self.requests.load(Relaxed) > 0 {
            self.requests.store(0, Relaxed);
            self.count();
        }
    }

    /// Returns whether bodies that nobody takes fill the connection's window: the client
    /// can't send.
    pub(crate) fn is_full(&self) -> bool {
        self.window.load(Relaxed) < LEAST_WINDOW
    }

    /// Returns whether the connection was chosen to end.
    pub(crate) fn has_ended(&self) -> bool {
        self.counted.load(Relaxed) == ENDED
    }

    /// Registers the connection's task. Returns whether the connection was chosen to end
    /// meanwhile.
    pub(crate) fn wake_at_end(&self, waker: &Waker) -> bool {
        // A connection that is not listed is not chosen.
        if !self.listed.load(Relaxed) {
            return false;
        }
        self.task.register(waker);
        self.has_ended()
    }

    /// Counts for the process what the connection holds, in whole steps.
    fn count(self: &Arc<Self>) {
        let held = self.memory_of_requests() + self.answers.load(Relaxed);
        let (held, counted) = (held / STEP * STEP, self.counted.load(Relaxed));
        if held == counted || counted == ENDED {
            return;
        }
        self.list();
        // Fails if another worker has just ended the connection.
        let set = self
            .counted
            .compare_exchange(counted, held, Relaxed, Relaxed);
        if set.is_err() {
            return;
        }
        let total = self.all.metrics.body_bytes_held();
        if held < counted {
            total.dec_by((counted - held) as u64);
            return;
        }
        total.inc_by((held - counted) as u64);
        if self.all.total() > self.all.limit {
            self.all.make_room();
        }
    }

    /// Puts the connection among the holders.
    fn list(self: &Arc<Self>) {
        if !self.listed.swap(true, Relaxed) {
            let address = Arc::as_ptr(self).addr();
            lock(&self.all.holders).insert(address, Arc::downgrade(self));
        }
    }

    /// Returns the memory of requests' bytes. h2 slices frames from the blocks that it reads
    /// the socket into: small frames that are held, between large ones that are taken, keep
    /// a block each.
    fn memory_of_requests(&self) -> usize {
        let blocks = self.blocks.load(Relaxed).min(self.since.load(Relaxed));
        match self.requests.load(Relaxed) {
            0 => 0,
            requests => requests.max(blocks),
        }
    }

    /// Marks the connection as ended, and returns the bytes that no longer count.
    fn uncount(&self) -> usize {
        match self.counted.swap(ENDED, Relaxed) {
            ENDED => 0,
            counted => {
                self.all.metrics.body_bytes_held().dec_by(counted as u64);
                counted
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.uncount();
        if *self.listed.get_mut() {
            let address = std::ptr::from_ref(self).addr();
            lock(&self.all.holders).remove(&address);
        }
    }
}

/// Returns the most memory that a frame of so many bytes keeps.
pub(crate) const fn block_of(frame: usize) -> usize {
    match frame {
        0 => 0,
        1..BLOCK => BLOCK,
        _ => frame,
    }
}

/// Bytes of a block that h2 reads into: a frame.
const BLOCK: usize = 16 << 10;

/// Value of `counted` of a connection that was chosen to end, and counts no more.
const ENDED: usize = usize::MAX;

/// Bytes in whose multiples a connection counts: a frame. Most requests and answers are
/// smaller, and touch no count that workers share.
const STEP: usize = 16 << 10;

/// Part of the bound that ending connections frees: 1/16.
const SHARES: usize = 16;

/// Bytes of a window below which a client sends nothing: a frame.
const LEAST_WINDOW: u32 = 16 << 10;

#[cfg(test)]
mod tests;
