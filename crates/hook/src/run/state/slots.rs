//! States of a worker thread, by their hooks.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

use super::State;
use crate::error::Error;
use crate::imports::Imports;
use crate::shared::Shared;
use crate::worker_time::WorkerTime;

/// States of this worker for one hook.
pub(super) struct Slot<I: Imports> {
    pub(super) state: Option<Arc<State<I>>>,
    /// The states before, while runs wait in them.
    pub(super) retired: Vec<Weak<State<I>>>,
    /// Time that runs take of the worker.
    pub(super) time: Arc<WorkerTime>,
    /// Why no state could be made, and until when none is tried again.
    pub(super) failed: Option<(Error, Instant)>,
}

/// Slot with what tells whether its hook is still there.
type HookSlot = (Weak<()>, Box<dyn Any>);

thread_local! {
    /// Slots by their hook. Those of hooks that are gone are dropped when a slot is
    /// made.
    static SLOTS: RefCell<Vec<HookSlot>> = const { RefCell::new(Vec::new()) };
}

/// Calls `then` with this worker's slot of a hook.
pub(super) fn local<I: Imports, R>(
    shared: &Arc<Shared<I>>,
    then: impl FnOnce(&mut Slot<I>) -> R,
) -> R {
    SLOTS.with_borrow_mut(|slots| {
        let of = |(alive, _): &HookSlot| alive.ptr_eq(&shared.alive);
        let at = slots.iter().position(of).unwrap_or_else(|| {
            slots.retain(|(alive, _)| alive.strong_count() > 0);
            let slot = Slot::<I> {
                state: None,
                retired: Vec::new(),
                time: Arc::new(WorkerTime::new()),
                failed: None,
            };
            slots.push((shared.alive.clone(), Box::new(slot)));
            slots.len() - 1
        });
        let slot = slots[at].1.downcast_mut().expect("the hook has one type");
        then(slot)
    })
}
