//! Singleflight of reads that obtain no certificate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::quality::RandomState;
use futures_util::future::{FutureExt as _, Shared};
use sekisho_certs::{HostName, Lookup, LookupError, Outcome};
use tokio::sync::oneshot;

use crate::budget::Permit;
use crate::virtual_host::VirtualHost;

/// Reads in flight by name. Each has a permit, which bounds their number.
#[derive(Clone, Default)]
pub(super) struct Reads(Arc<Mutex<HashMap<HostName, Read, RandomState>>>);

#[derive(Clone)]
struct Read {
    /// The lookup's revision before the read. A caller behind a later change starts a
    /// read of their own.
    revision: u64,
    outcome: Shared<oneshot::Receiver<Outcome<VirtualHost>>>,
}

impl Reads {
    /// Waits for the read of this name that is in flight, if it is not older than what
    /// the lookup knows.
    pub(super) async fn join(
        &self,
        lookup: &Lookup<VirtualHost>,
        name: &HostName,
    ) -> Option<Outcome<VirtualHost>> {
        let read = self.lock().get(name).cloned();
        let read = read.filter(|read| read.revision == lookup.revision())?;
        Some(outcome(read).await)
    }

    /// Reads this name in a task of its own, which no client can cancel. `permit` is
    /// charged if the host is absent.
    pub(super) async fn begin(
        &self,
        lookup: &Arc<Lookup<VirtualHost>>,
        name: &HostName,
        permit: Permit,
    ) -> Outcome<VirtualHost> {
        let revision = lookup.revision();
        let (ended, end) = oneshot::channel();
        let read = Read {
            revision,
            outcome: end.shared(),
        };
        let in_flight = {
            let mut reads = self.lock();
            let there = reads.get(name).filter(|there| there.revision == revision);
            let there = there.cloned();
            if there.is_none() {
                reads.insert(name.clone(), read.clone());
            }
            there
        };
        if let Some(read) = in_flight {
            return outcome(read).await;
        }
        let lookup = Arc::clone(lookup);
        let listed = Listed {
            reads: self.clone(),
            name: name.clone(),
            read: read.clone(),
        };
        tokio::spawn(async move {
            let outcome = lookup.stored(&listed.name).await;
            if matches!(outcome, Outcome::Absent(_)) {
                permit.was_absent();
            }
            drop(listed);
            // An error tells that all waiters have left.
            let _ = ended.send(outcome);
        });
        outcome(read).await
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HostName, Read, RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Read that stands among those in flight until this is dropped.
struct Listed {
    reads: Reads,
    name: HostName,
    read: Read,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut reads = self.reads.lock();
        // A newer read may have taken the place.
        let there = reads.get(&self.name);
        if there.is_some_and(|there| there.outcome.ptr_eq(&self.read.outcome)) {
            reads.remove(&self.name);
        }
    }
}

async fn outcome(read: Read) -> Outcome<VirtualHost> {
    let broken_off = |_| Outcome::Failed(LookupError::BrokenOff);
    read.outcome.await.unwrap_or_else(broken_off)
}
