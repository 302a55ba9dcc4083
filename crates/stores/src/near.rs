//! Runtimes that serve, and may drive connections to a store themselves: an
//! answer that arrives where it is waited for wakes no other thread.
//!
//! It is the thread that tells: handing the runtime down instead would put it
//! into every call of [`sekisho_certs::Store`] and each wrapper between, for two
//! stores that have a use for it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::runtime::Handle;

/// A runtime that serves.
#[cfg_attr(
    not(any(feature = "postgres", feature = "redis")),
    expect(dead_code, reason = "no store here keeps connections")
)]
#[derive(Clone, Debug)]
pub(crate) struct Near {
    pub(crate) id: Id,
    pub(crate) runtime: Handle,
}

/// Different for each, and never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Id(u64);

/// Says that this thread runs nothing but the current runtime, with I/O and
/// time, until it ends. From then on stores may keep connections there for the
/// calls that come from it. They lend them to others too, so such runtimes are
/// to end together. A store works without that: each has a runtime that it was
/// made with.
///
/// # Panics
/// Outside of a runtime.
pub fn serve_here() {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let near = Near {
        id: Id(LAST.fetch_add(1, Ordering::Relaxed)),
        runtime: Handle::current(),
    };
    HERE.set(Some(near));
}

/// Gives the runtime of this thread, if [`serve_here`] was called on it.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) fn here<T>(with: impl FnOnce(&Near) -> T) -> Option<T> {
    HERE.with_borrow(|here| here.as_ref().map(with))
}

thread_local! {
    static HERE: RefCell<Option<Near>> = const { RefCell::new(None) };
}
