//! Descriptors of connections to upstream servers: bounded for the process, and shared
//! by tenants.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use sekisho_certs::metrics::{Gauge, InGauge};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, timeout_at};

use super::failure::{Own, Waited};
use super::owned::{OPERATOR, Owner};

/// Descriptors of connections to upstream servers, of all workers together.
///
/// A tenant has fewer than are left: alone half of them, and no tenant takes those that
/// another's sites need. Unused connections count, too, for the tenant whose request opened
/// them; when one is missing, workers close those of tenants that have their share, and
/// those to servers of `[site]`, which tenants share.
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
    by_tenant: HashMap<u64, usize, RandomState>,
    /// Requests that wait, [`MOST_WAITING`] at most, with those that left.
    waiting: VecDeque<(u64, oneshot::Sender<Descriptor>)>,
}

/// Permit of one descriptor. A connection keeps it; dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Descriptor {
    descriptors: Arc<Descriptors>,
    /// Hash of the tenant.
    tenant: u64,
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

    /// Takes a descriptor if the tenant may have one at once.
    pub(super) fn take(descriptors: &Arc<Self>, tenant: u64) -> Option<Descriptor> {
        let has_room = descriptors.lock().take(tenant, descriptors.most);
        has_room.then(|| descriptors.descriptor(tenant))
    }

    /// Waits for a descriptor until `until`.
    ///
    /// # Errors
    /// [`Own::Descriptors`] if too many requests wait already, and
    /// [`Waited::Descriptor`] if none came free in time.
    pub(super) async fn enter(
        descriptors: &Arc<Self>,
        tenant: u64,
        until: Instant,
    ) -> Result<Descriptor, Own> {
        let turn = {
            let mut state = descriptors.lock();
            if state.take(tenant, descriptors.most) {
                drop(state);
                return Ok(descriptors.descriptor(tenant));
            }
            state.queue(tenant).ok_or(Own::Descriptors)?
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

    /// Returns whose unused connections are to be closed: the operator's, and those of
    /// tenants that have their share.
    pub(crate) fn sated(&self) -> impl Fn(Owner) -> bool {
        let state = self.lock();
        let left = self.most.saturating_sub(state.all);
        let share = match left {
            // u64s took all: those with most make room.
            0 => state.all / state.by_tenant.len().max(1),
            left => left,
        };
        let sated = state.by_tenant.iter().filter(|(_, used)| **used >= share);
        let sated: Vec<u64> = sated.map(|(tenant, _)| *tenant).collect();
        move |owner| owner == OPERATOR || sated.contains(&owner)
    }

    fn descriptor(self: &Arc<Self>, tenant: u64) -> Descriptor {
        Descriptor {
            descriptors: Arc::clone(self),
            tenant,
            _open: InGauge::new(&self.open),
        }
    }

    /// Gives free descriptors to requests that wait.
    fn pass_on(self: &Arc<Self>) {
        loop {
            let next = self.lock().next(self.most);
            let Some((tenant, turn)) = next else { return };
            // Outside of the lock: a request that left gives it back here.
            let _ = turn.send(self.descriptor(tenant));
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
            state.remove(self.tenant);
            !state.waiting.is_empty()
        };
        if is_awaited {
            self.descriptors.pass_on();
        }
    }
}

impl State {
    fn has_room(&self, tenant: u64, most: usize) -> bool {
        let used = self.by_tenant.get(&tenant).copied().unwrap_or(0);
        used < most.saturating_sub(self.all)
    }

    fn take(&mut self, tenant: u64, most: usize) -> bool {
        let has_room = self.has_room(tenant, most);
        if has_room {
            self.add(tenant);
        }
        has_room
    }

    fn add(&mut self, tenant: u64) {
        self.all += 1;
        *self.by_tenant.entry(tenant).or_default() += 1;
    }

    fn remove(&mut self, tenant: u64) {
        self.all -= 1;
        if let Some(used) = self.by_tenant.get_mut(&tenant) {
            *used -= 1;
            if *used == 0 {
                self.by_tenant.remove(&tenant);
            }
        }
    }

    /// Adds a request. None if too many of its tenant wait: as many as there is room for
    /// more.
    fn queue(&mut self, tenant: u64) -> Option<oneshot::Receiver<Descriptor>> {
        self.waiting.retain(|(_, turn)| !turn.is_closed());
        let own = self.waiting.iter().filter(|(other, _)| *other == tenant);
        if own.count() >= MOST_WAITING - self.waiting.len() {
            return None;
        }
        let (turn, awaited) = oneshot::channel();
        self.waiting.push_back((tenant, turn));
        Some(awaited)
    }

    /// Takes the first request whose tenant may have a descriptor, for which that then
    /// counts.
    fn next(&mut self, most: usize) -> Option<(u64, oneshot::Sender<Descriptor>)> {
        let has_room = |(tenant, _): &(u64, _)| self.has_room(*tenant, most);
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

    /// Takes as many as a tenant gets at once.
    fn fill(descriptors: &Arc<Descriptors>, tenant: Owner) -> Vec<Descriptor> {
        let take = || Descriptors::enter(descriptors, tenant, later()).now_or_never();
        std::iter::from_fn(take).map(Result::unwrap).collect()
    }

    #[tokio::test]
    async fn a_tenant_leaves_others_as_many_as_it_has() {
        let descriptors = of(100);
        let first = fill(&descriptors, 1);
        let second = fill(&descriptors, 2);
        let third = fill(&descriptors, 3);
        assert_eq!((first.len(), second.len(), third.len()), (50, 25, 13));
        drop((first, second, third));
        let state = descriptors.lock();
        assert_eq!((state.all, state.by_tenant.len()), (0, 0));
    }

    #[tokio::test]
    async fn one_that_comes_free_goes_to_a_tenant_that_waits() {
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
