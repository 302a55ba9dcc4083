//! Descriptors of connections to upstream servers: bounded for the process, and shared
//! by tenants.

use std::future::poll_fn;
use std::mem::replace;
use std::pin::pin;

use sekisho_certs::metrics::{Gauge, InGauge};
use sekisho_gate::{Denied, Gate, Permit, Sharing};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::upstream::failure::{Own, Waited};
use crate::upstream::owned::{OPERATOR, Owner};

/// Descriptors of connections to upstream servers, of all workers together.
///
/// A tenant has fewer than are left: alone half of them, and no tenant takes those that
/// another's sites need. Unused connections count, too, for the tenant whose request opened
/// them; when one is missing, workers close those of tenants that have their share, and
/// those to servers of `[site]`, which tenants share.
#[derive(Debug)]
pub(crate) struct Descriptors {
    /// By the hash of the tenant.
    gate: Gate<u64>,
    /// Raised when a descriptor is missing.
    missing: watch::Sender<u64>,
    open: Gauge,
}

/// Permit of one descriptor. A connection keeps it; dropping it passes it on.
#[derive(Debug)]
pub(crate) struct Descriptor {
    _permit: Permit<u64>,
    _open: InGauge,
}

impl Descriptors {
    pub(crate) fn new(most: usize, open: Gauge) -> Self {
        Self {
            gate: Gate::new(most.max(2), Sharing::FewerThanLeft, MOST_WAITING),
            missing: watch::Sender::new(0),
            open,
        }
    }

    /// Takes a descriptor if the tenant may have one at once.
    pub(in crate::upstream) fn take(&self, tenant: u64) -> Option<Descriptor> {
        let permit = self.gate.try_enter(tenant)?;
        Some(self.descriptor(permit))
    }

    /// Waits for a descriptor until `until`. A request that waits asks all workers to close
    /// unused connections.
    ///
    /// # Errors
    /// [`Own::Descriptors`] if too many requests wait already, and
    /// [`Waited::Descriptor`] if none came free in time.
    pub(in crate::upstream) async fn enter(
        &self,
        tenant: u64,
        until: Instant,
    ) -> Result<Descriptor, Own> {
        let mut entering = pin!(self.gate.enter_until(tenant, until));
        let mut has_asked = false;
        let permit = poll_fn(|cx| {
            let polled = entering.as_mut().poll(cx);
            if polled.is_pending() && !replace(&mut has_asked, true) {
                self.ask_workers();
            }
            polled
        });
        let permit = permit.await.map_err(|denied| match denied {
            Denied::Full => Own::Descriptors,
            Denied::Late => Own::Late(Waited::Descriptor),
        });
        Ok(self.descriptor(permit?))
    }

    /// Asks all workers to close unused connections.
    pub(in crate::upstream) fn ask_workers(&self) {
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
        let sated = self.gate.sated();
        move |owner| owner == OPERATOR || sated.contains(&owner)
    }

    fn descriptor(&self, permit: Permit<u64>) -> Descriptor {
        Descriptor {
            _permit: permit,
            _open: InGauge::new(&self.open),
        }
    }
}

/// Requests that wait for a descriptor.
const MOST_WAITING: usize = 512;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::StreamExt as _;
    use futures_util::stream::FuturesUnordered;
    use tokio::time::sleep;

    use super::*;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(5)
    }

    /// Takes as many as a tenant gets at once.
    fn fill(descriptors: &Descriptors, tenant: Owner) -> Vec<Descriptor> {
        std::iter::from_fn(|| descriptors.take(tenant)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_descriptor_closes_unused_connections() {
        let descriptors = Descriptors::new(2, Gauge::default());
        let mut missing = descriptors.missing();
        let (first, second) = (fill(&descriptors, 1), fill(&descriptors, 2));
        assert_eq!((first.len(), second.len()), (1, 1));
        assert_eq!(descriptors.open.get(), 2);
        assert!(!missing.has_changed().unwrap());
        let (entered, ()) = tokio::join!(descriptors.enter(3, later()), async {
            missing.changed().await.unwrap();
            let is_sated = descriptors.sated();
            assert!(is_sated(1) && is_sated(OPERATOR) && !is_sated(3));
            drop(first);
        });
        assert!(entered.is_ok());
        let late = descriptors.enter(1, later()).await;
        assert_eq!(late.unwrap_err(), Own::Late(Waited::Descriptor));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_refused_asks_for_no_connection() {
        let descriptors = Descriptors::new(4, Gauge::default());
        let missing = descriptors.missing();
        let _used = fill(&descriptors, 1);
        let waits = || async { descriptors.enter(1, later()).await.unwrap_err() };
        let waits: FuturesUnordered<_> = (0..MOST_WAITING).map(|_| waits()).collect();
        let refused = async {
            sleep(Duration::from_millis(1)).await;
            let asked = *missing.borrow();
            let refused = descriptors.enter(1, later()).await.unwrap_err();
            assert_eq!(*missing.borrow(), asked);
            assert!(descriptors.enter(2, later()).await.is_ok());
            refused
        };
        let (refused, late) = tokio::join!(refused, waits.collect::<Vec<_>>());
        assert_eq!(refused, Own::Descriptors);
        assert!(late.contains(&Own::Late(Waited::Descriptor)));
    }
}
