//! Workers: threads that serve, each with one runtime, which may drive
//! connections to a store of its own. A reply that arrives where it is waited for
//! wakes no other thread.
//!
//! The thread says so itself. Handing the runtime down instead would put it into
//! every call of [`sekisho_certs::Store`], for two stores that use it.

use std::cell::RefCell;

use tokio::runtime::Handle;

/// Makes this thread a worker: until it ends, it runs nothing but the current
/// runtime, with I/O and time. Stores may keep connections there for the calls
/// that come from it, and lend them to others, so workers are to end together. A
/// store works without workers: each has a runtime that it was made with.
///
/// # Panics
/// Outside of a runtime.
pub fn register() {
    CURRENT.set(Some(Handle::current()));
}

/// Passes on the runtime of the worker that this thread is, if [`register`] was called on
/// it.
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) fn current<T>(with: impl FnOnce(&Handle) -> T) -> Option<T> {
    CURRENT.with_borrow(|runtime| runtime.as_ref().map(with))
}

thread_local! {
    static CURRENT: RefCell<Option<Handle>> = const { RefCell::new(None) };
}
