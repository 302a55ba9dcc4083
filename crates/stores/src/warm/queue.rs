//! What waits for the thread of the copies: calls that somebody waits for, and
//! answers that are to be kept.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::seen::Mark;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::Begun;
use sekisho_certs::store::Found;

/// One thread takes from it, any number put in; nobody waits to put.
pub(super) struct Queue<S> {
    waiting: Mutex<Waiting<S>>,
    arrived: Condvar,
}

/// What is to be done.
pub(super) enum Task<S> {
    /// More calls came than may wait, and not all of them may be left undone.
    Lost,
    Call(Call<S>),
    Keep(Vec<Kept>),
}

pub(super) type Call<S> = Box<dyn FnOnce(&mut S) + Send>;

/// What the store said of a name.
pub(super) struct Kept {
    pub(super) name: HostName,
    /// None if it is absent.
    pub(super) said: Option<(Box<Found<SealedBytes>>, Mark)>,
    /// When the store was asked, by the log; none for a plain store.
    pub(super) begun: Option<Begun>,
}

struct Waiting<S> {
    calls: VecDeque<Call<S>>,
    kept: VecDeque<Kept>,
    /// When the first of `kept` came.
    since: Option<Instant>,
    lost: bool,
    closed: bool,
    /// The thread waits for something to do.
    idle: bool,
}

impl<S> Queue<S> {
    pub(super) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                calls: VecDeque::new(),
                kept: VecDeque::new(),
                since: None,
                lost: false,
                closed: false,
                idle: false,
            }),
            arrived: Condvar::new(),
        }
    }

    /// False if too many wait.
    pub(super) fn call(&self, call: Call<S>) -> bool {
        let mut waiting = self.lock();
        let has_room = waiting.calls.len() < MOST_CALLS;
        if has_room {
            waiting.calls.push_back(call);
            drop(waiting);
            self.arrived.notify_one();
        }
        has_room
    }

    /// One that may not be left undone: where there is no room for it either,
    /// the thread is told that it missed something.
    pub(super) fn must_call(&self, call: Call<S>) {
        let mut waiting = self.lock();
        match waiting.calls.len() < 2 * MOST_CALLS {
            true => waiting.calls.push_back(call),
            false => waiting.lost = true,
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// False if too many wait. An absence is small, and drops what must not be
    /// served: there is room for more of them.
    pub(super) fn keep(&self, kept: Kept) -> bool {
        let most = match kept.said {
            Some(_) => MOST_KEPT,
            None => 8 * MOST_KEPT,
        };
        let mut waiting = self.lock();
        if waiting.kept.len() >= most {
            return false;
        }
        waiting.kept.push_back(kept);
        let number = waiting.kept.len();
        if number == 1 {
            waiting.since = Some(Instant::now());
        }
        drop(waiting);
        // Between the first and a whole batch the thread wakes by itself.
        if number == 1 || number == BATCH {
            self.arrived.notify_one();
        }
        true
    }

    /// Waits for what is to be done next. None once it is closed and what was
    /// to be kept is taken.
    pub(super) fn next(&self) -> Option<Task<S>> {
        let mut waiting = self.lock();
        loop {
            if std::mem::take(&mut waiting.lost) {
                return Some(Task::Lost);
            }
            if let Some(call) = waiting.calls.pop_front() {
                return Some(Task::Call(call));
            }
            let age = waiting.since.map(|since| since.elapsed());
            let Some(age) = age else {
                if waiting.closed {
                    return None;
                }
                waiting.idle = true;
                waiting = self
                    .arrived
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner);
                waiting.idle = false;
                continue;
            };
            let is_due = age >= GATHER || waiting.kept.len() >= BATCH || waiting.closed;
            if is_due {
                return Some(Task::Keep(waiting.batch()));
            }
            let woken = self.arrived.wait_timeout(waiting, GATHER - age);
            (waiting, _) = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let waiting = self.lock();
        waiting.idle && waiting.kept.is_empty() && waiting.calls.is_empty()
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_one();
    }

    /// Nothing in here panics between two changes.
    fn lock(&self) -> MutexGuard<'_, Waiting<S>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Waiting<S> {
    fn batch(&mut self) -> Vec<Kept> {
        let number = self.kept.len().min(BATCH);
        let batch = self.kept.drain(..number).collect();
        self.since = (!self.kept.is_empty()).then(Instant::now);
        batch
    }
}

impl<S> fmt::Debug for Queue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.lock();
        f.debug_struct("Queue")
            .field("calls", &waiting.calls.len())
            .field("kept", &waiting.kept.len())
            .finish()
    }
}

/// As many as loads may be in flight in a busy server.
const MOST_CALLS: usize = 1024;
/// Some megabytes of answers; the disk writes ten thousand a second.
const MOST_KEPT: usize = 512;
/// One transaction: what it adds to the log stays small.
pub(super) const BATCH: usize = 32;
/// How long the first waits for more to share a transaction with.
const GATHER: Duration = Duration::from_millis(20);
