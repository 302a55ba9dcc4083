//! The connections that look-ups use together. What is sent at the same time
//! over one costs one write and one wake-up.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::connection::Connection;
use super::pool::{Lent, Pool};
use crate::near;

/// Which connections are used together, and who waits for a place on one.
pub(super) struct Shared {
    /// Connections at most: they may be in use without end.
    most: usize,
    used: Mutex<Vec<Weak<Used>>>,
    waiting: AtomicUsize,
    free: Notify,
}

/// A connection while it is used.
pub(super) struct Used {
    lent: Lent,
    /// When it last gave an answer, or was ready for its first question.
    heard: Mutex<Instant>,
}

impl Shared {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            used: Mutex::default(),
            waiting: AtomicUsize::new(0),
            free: Notify::new(),
        }
    }

    /// Lets others use it too, if not too many are used so already.
    pub(super) fn add(&self, used: &Arc<Used>) -> bool {
        let mut all = lock(&self.used);
        all.retain(|one| one.strong_count() > 0);
        let taken = all.len() < self.most;
        if taken {
            all.push(Arc::downgrade(used));
            self.free.notify_one();
        }
        taken
    }

    /// One that answers, unless others wait for a place. It is the first that
    /// there is: the others come to an end, and few carry all.
    pub(super) fn prompt(&self) -> Option<Arc<Used>> {
        self.first(|_| true)
    }

    /// The same among those that this thread's runtime drives.
    pub(super) fn prompt_here(&self) -> Option<Arc<Used>> {
        self.first(|used| used.lent.is_here())
    }

    fn first(&self, fits: impl Fn(&Used) -> bool) -> Option<Arc<Used>> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let all = lock(&self.used);
        with_places(&all).find(|used| fits(used) && used.silence() < LATE)
    }

    /// Whether one is in use that this runtime drives.
    pub(super) fn has(&self, id: near::Id) -> bool {
        let all = lock(&self.used);
        let mut used = all.iter().filter_map(Weak::upgrade);
        used.any(|used| used.lent.near() == Some(id))
    }

    /// Any, unless others wait for a place.
    pub(super) fn any(&self) -> Option<Arc<Used>> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.least_silent()
    }

    /// Waits for a place. Who came first gets it first.
    pub(super) async fn place(&self) -> Arc<Used> {
        let _waits = Waits::on(&self.waiting);
        loop {
            self.free.notified().await;
            if let Some(used) = self.least_silent() {
                // There may be more places than were told of.
                self.free.notify_one();
                return used;
            }
        }
    }

    fn least_silent(&self) -> Option<Arc<Used>> {
        let all = lock(&self.used);
        with_places(&all).min_by_key(|used| used.silence())
    }
}

impl Used {
    pub(super) fn new(lent: Lent) -> Self {
        Self {
            lent,
            heard: Mutex::new(Instant::now()),
        }
    }

    fn silence(&self) -> Duration {
        lock(&self.heard).elapsed()
    }
}

/// The use of a connection by one look-up.
pub(super) struct Seat {
    used: Arc<Used>,
    // Dropped last, when the place is free.
    _freed: Option<Freed>,
}

impl Seat {
    /// On a connection that nobody else uses.
    pub(super) fn alone(used: Arc<Used>) -> Self {
        Self { used, _freed: None }
    }

    /// On one that is used together.
    pub(super) fn among(pool: &Arc<Pool>, used: Arc<Used>) -> Self {
        let freed = Some(Freed(Arc::clone(pool)));
        Self {
            used,
            _freed: freed,
        }
    }
}

impl Deref for Seat {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.used.lent
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        *lock(&self.used.heard) = Instant::now();
    }
}

/// Tells who waits that a place has become free.
struct Freed(Arc<Pool>);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.shared.free.notify_one();
    }
}

/// Counts one that waits.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn on(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn with_places(all: &[Weak<Used>]) -> impl Iterator<Item = Arc<Used>> {
    let used = all.iter().filter_map(Weak::upgrade);
    // This one counts already.
    used.filter(|used| Arc::strong_count(used) <= TOGETHER && used.lent.is_sound())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Look-ups on one connection: the last waits for the answers to all before.
pub(super) const TOGETHER: usize = 8;
/// Far longer than a look-up takes: who comes now is better off elsewhere.
const LATE: Duration = Duration::from_millis(100);
