//! Workers: threads that serve, each with one runtime, which may drive
//! connections to a store of its own. A reply that arrives where it is waited for
//! wakes no other thread.
//!
//! The thread says so itself. Handing the runtime down instead would put it into
//! every call of [`sekisho_certs::Store`], for two stores that use it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

/// The runtime of a worker.
#[cfg_attr(
    not(any(feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "no store here keeps connections")
)]
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) id: Id,
    pub(crate) runtime: Handle,
}

/// Identifies a worker; never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(u64);

/// Makes this thread a worker: until it ends, it runs nothing but the current
/// runtime, with I/O and time. Stores may keep connections there for the calls
/// that come from it, and lend them to others, so workers are to end together. A
/// store works without workers: each has a runtime that it was made with.
///
/// # Panics
/// Outside of a runtime.
pub fn register() {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let worker = Worker {
        id: Id(LAST.fetch_add(1, Ordering::Relaxed)),
        runtime: Handle::current(),
    };
    CURRENT.set(Some(worker));
}

/// Passes on the worker that this thread is, if [`register`] was called on it.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) fn current<T>(with: impl FnOnce(&Worker) -> T) -> Option<T> {
    CURRENT.with_borrow(|worker| worker.as_ref().map(with))
}

thread_local! {
    static CURRENT: RefCell<Option<Worker>> = const { RefCell::new(None) };
}
