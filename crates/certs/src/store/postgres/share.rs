//! The connections that look-ups use together. What is sent at the same time
//! over one costs one write and one wake-up.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use super::connection::Connection;
use super::pool::{Lent, Pool};

/// Which connections are used together, and who waits for a place on one.
pub(super) struct Shared {
    /// Connections at most: they may be in use without end.
    most: usize,
    used: Mutex<Vec<Weak<Lent>>>,
    waiting: AtomicUsize,
    free: Notify,
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
    pub(super) fn add(&self, used: &Arc<Lent>) -> bool {
        let mut all = lock(&self.used);
        all.retain(|one| one.strong_count() > 0);
        let taken = all.len() < self.most;
        if taken {
            all.push(Arc::downgrade(used));
            self.free.notify_one();
        }
        taken
    }

    /// The first that has a place, unless others wait for one: few carry all,
    /// and the others come to an end.
    pub(super) fn first(&self) -> Option<Arc<Lent>> {
        if self.waiting.load(Ordering::Relaxed) > 0 {
            return None;
        }
        self.with_place()
    }

    /// Waits for a place. Who came first gets it first.
    pub(super) async fn place(&self) -> Arc<Lent> {
        let _waits = Waits::on(&self.waiting);
        loop {
            self.free.notified().await;
            if let Some(used) = self.with_place() {
                // There may be more places than were told of.
                self.free.notify_one();
                return used;
            }
        }
    }

    fn with_place(&self) -> Option<Arc<Lent>> {
        let all = lock(&self.used);
        let mut used = all.iter().filter_map(Weak::upgrade);
        // This one counts already.
        used.find(|used| Arc::strong_count(used) <= TOGETHER && used.is_sound())
    }
}

/// The use of a connection by one look-up.
pub(super) struct Seat {
    used: Arc<Lent>,
    // Dropped last, when the place is free.
    _freed: Option<Freed>,
}

impl Seat {
    /// On a connection that nobody else uses.
    pub(super) fn alone(used: Arc<Lent>) -> Self {
        Self { used, _freed: None }
    }

    /// On one that is used together.
    pub(super) fn among(pool: &Arc<Pool>, used: Arc<Lent>) -> Self {
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
        &self.used
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Look-ups on one connection: the last waits for the answers to all before.
pub(super) const TOGETHER: usize = 8;
