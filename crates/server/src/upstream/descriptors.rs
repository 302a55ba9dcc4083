//! Descriptors of connections to upstream servers: bounded for the process, and shared
//! by owners.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use sekisho_certs::metrics::{Gauge, InGauge};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::failure::{Own, Waited};
use super::owned::Owner;

/// Descriptors of connections to upstream servers, of all workers together.
///
/// An owner has fewer than are left: alone half of them, and no owner takes those that
/// another's sites need. Unused connections count, too; workers close those of owners
/// that have their share when one is missing.
#[derive(Debug)]
pub(crate) struct Descriptors {
    most: usize,
    state: Mutex<State>,
    /// Raised when a descriptor is missing.
    missing: watch::Sender<u64>,
    open: Gauge,
}

#[derive(Debug, Default)]
struct State {
    all: usize,
    by_owner: HashMap<Owner, usize, RandomState>,
    /// Requests that wait, [`MOST_WAITING`] at most, with those that left.
    waiting: VecDeque<(Owner, oneshot::Sender<Descriptor>)>,
}

/// Permit of one descriptor. A connection keeps it; dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Descriptor {
    descriptors: Arc<Descriptors>,
    owner: Owner,
    _open: InGauge,
}

impl Descriptors {
    pub(crate) fn new(most: usize, open: Gauge) -> Self {
        Self {
            most: most.max(2),
            state: Mutex::default(),
            missing: watch::Sender::new(0),
            open,
        }
    }

    /// Takes a descriptor if the owner may have one at once.
    pub(super) fn take(descriptors: &Arc<Self>, owner: Owner) -> Option<Descriptor> {
        let has_room = descriptors.lock().take(owner, descriptors.most);
        has_room.then(|| descriptors.descriptor(owner))
    }

    /// Waits for a descriptor until `until`.
    ///
    /// # Errors
    /// [`Own::Descriptors`] if too many requests wait already, and
    /// [`Waited::Descriptor`] if none came free in time.
    pub(super) async fn enter(
        descriptors: &Arc<Self>,
        owner: Owner,
        until: Instant,
    ) -> Result<Descriptor, Own> {
        let turn = {
            let mut state = descriptors.lock();
            if state.take(owner, descriptors.most) {
                drop(state);
                return Ok(descriptors.descriptor(owner));
            }
            state.queue(owner).ok_or(Own::Descriptors)?
        };
        descriptors.ask_workers();
        let turn = timeout_at(until, turn).await;
        let turn = turn.map_err(|_| Own::Late(Waited::Descriptor))?;
        // The sender is dropped without sending only if it makes room.
        turn.map_err(|_| Own::Descriptors)
    }

    /// Asks all workers to close unused connections.
    pub(super) fn ask_workers(&self) {
        self.missing
            .send_modify(|asked| *asked = asked.wrapping_add(1));
    }

    /// Returns what changes when unused connections are to be closed.
    pub(crate) fn missing(&self) -> watch::Receiver<u64> {
        self.missing.subscribe()
    }

    /// Returns which owners have their share: their unused connections are to be closed.
    pub(crate) fn sated(&self) -> impl Fn(Owner) -> bool {
        let state = self.lock();
        let left = self.most.saturating_sub(state.all);
        let share = match left {
            // Owners took all: those with most make room.
            0 => state.all / state.by_owner.len().max(1),
            left => left,
        };
        let sated = state.by_owner.iter().filter(|(_, used)| **used >= share);
        let sated: Vec<Owner> = sated.map(|(owner, _)| *owner).collect();
        move |owner| sated.contains(&owner)
    }

    fn descriptor(self: &Arc<Self>, owner: Owner) -> Descriptor {
        Descriptor {
            descriptors: Arc::clone(self),
            owner,
            _open: InGauge::new(&self.open),
        }
    }

    /// Gives free descriptors to requests that wait.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self.most);
            let Some((owner, turn)) = next else { return };
            // Outside of the lock: a request that left gives it back here.
            let _ = turn.send(self.descriptor(owner));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let is_awaited = {
            let mut state = self.descriptors.lock();
            state.remove(self.owner);
            !state.waiting.is_empty()
        };
        if is_awaited {
            self.descriptors.pass_on();
        }
    }
}

impl State {
    fn has_room(&self, owner: Owner, most: usize) -> bool {
        let used = self.by_owner.get(&owner).copied().unwrap_or(0);
        used < most.saturating_sub(self.all)
    }

    fn take(&mut self, owner: Owner, most: usize) -> bool {
        let has_room = self.has_room(owner, most);
        if has_room {
            self.add(owner);
        }
        has_room
    }

    fn add(&mut self, owner: Owner) {
        self.all += 1;
        *self.by_owner.entry(owner).or_default() += 1;
    }

    fn remove(&mut self, owner: Owner) {
        self.all -= 1;
        if let Some(used) = self.by_owner.get_mut(&owner) {
            *used -= 1;
            if *used == 0 {
                self.by_owner.remove(&owner);
            }
        }
    }

    /// Adds a request. None if too many of its owner wait: as many as there is room for
    /// more.
    fn queue(&mut self, owner: Owner) -> Option<oneshot::Receiver<Descriptor>> {
        self.waiting.retain(|(_, turn)| !turn.is_closed());
        let own = self.waiting.iter().filter(|(other, _)| *other == owner);
        if own.count() >= MOST_WAITING - self.waiting.len() {
            return None;
        }
        let (turn, awaited) = oneshot::channel();
        self.waiting.push_back((owner, turn));
        Some(awaited)
    }

    /// Takes the first request whose owner may have a descriptor, for which that then
    /// counts.
    fn next(&mut self, most: usize) -> Option<(Owner, oneshot::Sender<Descriptor>)> {
        let has_room = |(owner, _): &(Owner, _)| self.has_room(*owner, most);
        let first = self.waiting.iter().position(has_room)?;
        let next = self.waiting.remove(first)?;
        self.add(next.0);
        Some(next)
    }
}

/// Requests that wait for a descriptor. Each step looks at all of them.
const MOST_WAITING: usize = 512;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt as _;

    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    fn of(most: usize) -> Arc<Descriptors> {
        Arc::new(Descriptors::new(most, Gauge::default()))
    }

    /// Takes as many as a owner gets at once.
    fn fill(descriptors: &Arc<Descriptors>, owner: Owner) -> Vec<Descriptor> {
        let take = || Descriptors::enter(descriptors, owner, later()).now_or_never();
        std::iter::from_fn(take).map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn an_owner_leaves_others_as_many_as_it_has() {
        let descriptors = of(100);
        let first = fill(&descriptors, 1);
        let second = fill(&descriptors, 2);
        let third = fill(&descriptors, 3);
        assert_eq!((first.len(), second.len(), third.len()), (50, 25, 13));
        drop((first, second, third));
        let state = descriptors.lock();
        assert_eq!((state.all, state.by_owner.len()), (0, 0));
    }

    #[tokio::test]
    async fn one_that_comes_free_goes_to_an_owner_that_waits() {
        let descriptors = of(2);
        let first = fill(&descriptors, 1);
        let second = fill(&descriptors, 2);
        assert_eq!((first.len(), second.len()), (1, 1));
        let waits = tokio::spawn({
            let descriptors = Arc::clone(&descriptors);
            async move { Descriptors::enter(&descriptors, 3, later()).await }
        });
        tokio::task::yield_now().await;
        assert!(descriptors.missing().has_changed().is_ok());
        drop(first);
        assert!(waits.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_has_an_end_and_a_bound() {
        let descriptors = of(2);
        let _held = fill(&descriptors, 1);
        let late = Descriptors::enter(&descriptors, 1, later()).await;
        assert_eq!(late.unwrap_err(), Own::Late(Waited::Descriptor));
        let waits: Vec<_> = (0..MOST_WAITING)
            .map(|_| descriptors.lock().queue(1))
            .collect();
        let waiting = waits.iter().filter(|waits| waits.is_some()).count();
        assert_eq!(waiting, MOST_WAITING / 2);
        assert!(descriptors.lock().queue(2).is_some());
        let full = Descriptors::enter(&descriptors, 1, later()).await;
        assert_eq!(full.unwrap_err(), Own::Descriptors);
    }
}
