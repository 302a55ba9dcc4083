//! Singleflight: one read of a name, and one call that obtains its certificate, each shared
//! by all who wait for it.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use foldhash::quality::RandomState;
use futures_util::future::{FutureExt, Shared};
use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::{Lookup, LookupError, Outcome};
use crate::cache::{Absence, Served};
use crate::host::HostName;
use crate::log::Recent;
use crate::record::Tenant;

/// A flight, shared by its waiters.
pub(super) type Call<V> = Shared<Receiver<Told<V>>>;

/// Begins a call. All waiters hear once the sender is used or dropped.
pub(super) fn begin<V>() -> (Sender<Told<V>>, Call<V>) {
    let (complete, told) = channel();
    (complete, told.shared())
}

/// Outcome that a flight tells its waiters, and the record without a credential, if there is
/// one, for waiters that serve it too.
pub(super) type Told<V> = (Progress<V>, Option<Arc<Served<V>>>);

/// Flights by name, below one lock: a read passes its call on if a certificate is obtained,
/// and nobody comes between.
pub(super) struct Flights<V> {
    reads: HashMap<HostName, Reading<V>, RandomState>,
    obtaining: HashMap<HostName, Call<V>, RandomState>,
}

struct Reading<V> {
    call: Call<V>,
    wanted: Wanted,
}

/// Number of issuance attempts so far for the callers that wait for a read; none if none of
/// them wants a certificate. A caller that joins takes over the count.
pub(super) type Wanted = Option<usize>;

/// Wish of a caller that must not issue.
pub(super) const STORED: Wanted = None;
/// Wish of a caller that waits for a certificate, too.
pub(super) const CERTIFICATE: Wanted = Some(0);

impl<V> Flights<V> {
    pub(super) fn len(&self) -> usize {
        self.reads.len() + self.obtaining.len()
    }

    /// Joins what is in flight for a name: what obtains its certificate, for those who want
    /// it, else the read.
    pub(super) fn join(&mut self, name: &HostName, wanted: Wanted) -> Option<Call<V>> {
        if wanted.is_some()
            && let Some(call) = self.obtaining.get(name)
        {
            return Some(call.clone());
        }
        let read = self.reads.get_mut(name)?;
        read.wanted = read.wanted.max(wanted);
        Some(read.call.clone())
    }

    /// Begins to read a name that has no read in flight.
    pub(super) fn read(&mut self, name: &HostName, wanted: Wanted) -> (Sender<Told<V>>, Call<V>) {
        let (complete, call) = begin();
        let read = Reading {
            call: call.clone(),
            wanted,
        };
        self.reads.insert(name.clone(), read);
        (complete, call)
    }

    /// Ends the read of a name. If a waiter wants a certificate, moves the call to those that
    /// obtain one. No other call stands there: a caller that wants a certificate joins it.
    pub(super) fn obtain(&mut self, name: &HostName) -> Wanted {
        let Reading { call, wanted } = self.reads.remove(name)?;
        if wanted.is_some() {
            self.obtaining.insert(name.clone(), call);
        }
        wanted
    }

    /// Ends a flight. After that, another one may stand under its name.
    pub(super) fn end(&mut self, name: &HostName, call: &Call<V>) {
        let is_read = |read: &Reading<V>| read.call.ptr_eq(call);
        if self.reads.get(name).is_some_and(is_read) {
            self.reads.remove(name);
        } else if self.obtaining.get(name).is_some_and(|it| it.ptr_eq(call)) {
            self.obtaining.remove(name);
        }
    }
}

impl<V> Default for Flights<V> {
    fn default() -> Self {
        Self {
            reads: HashMap::default(),
            obtaining: HashMap::default(),
        }
    }
}

/// Place of a flight among those that can be joined. Dropping it ends the flight, so a
/// runtime that ends leaves no waiter behind.
pub(super) struct Listed<V: Send + Sync + 'static> {
    pub(super) lookup: Arc<Lookup<V>>,
    pub(super) name: HostName,
    /// As it stands among the flights; never polled here.
    pub(super) call: Call<V>,
}

impl<V: Send + Sync + 'static> Listed<V> {
    /// Lets no lookup join any more. `recent` is locked since the outcome was
    /// decided: a lookup that follows a later change begins another flight.
    pub(super) fn leave(&self, _: &Recent) {
        self.lookup.flights().end(&self.name, &self.call);
    }
}

impl<V: Send + Sync + 'static> Drop for Listed<V> {
    fn drop(&mut self) {
        self.lookup.flights().end(&self.name, &self.call);
    }
}

/// How far a load has come.
pub enum Progress<V> {
    /// The load has ended.
    Ended(Outcome<V>),
    /// The store has nothing to serve, and a certificate is being obtained.
    Obtaining {
        /// Owner of the host; none if the name has no record.
        tenant: Option<Tenant>,
        /// The outcome of the load.
        outcome: Wait<V>,
    },
}

/// Future of a load's outcome. Dropping it cancels nothing.
pub struct Wait<V>(Call<V>);

impl<V> Wait<V> {
    pub(super) fn on(call: Call<V>) -> Self {
        Self(call)
    }

    pub(super) fn known(outcome: Outcome<V>) -> Self {
        let (complete, call) = begin();
        let _ = complete.send((Progress::Ended(outcome), None));
        Self(call)
    }

    /// Waits until the load has ended, or is obtaining a certificate: that takes
    /// much longer than a store call.
    pub async fn progress(self) -> Progress<V> {
        self.told().await.0
    }

    /// Waits for what is stored. A certificate that is being obtained, or could not be
    /// obtained, is absent.
    pub async fn stored(self) -> Outcome<V> {
        self.progress().await.stored()
    }

    async fn told(self) -> Told<V> {
        self.0.await.unwrap_or((Progress::BROKEN_OFF, None))
    }
}

impl<V> Future for Wait<V> {
    type Output = Outcome<V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        loop {
            let told = ready!(self.0.poll_unpin(context));
            match told.map_or(Progress::BROKEN_OFF, |(progress, _)| progress) {
                Progress::Ended(outcome) => return Poll::Ready(outcome),
                Progress::Obtaining { outcome, .. } => *self = outcome,
            }
        }
    }
}

/// Wait for a record with a credential or without one. Dropping it cancels nothing.
pub struct AnyWait<V>(pub(super) Wait<V>);

impl<V> AnyWait<V> {
    /// Waits for what is stored, as [`Wait::stored`] does, but that a record without a
    /// credential is found.
    pub async fn stored(self) -> Outcome<V> {
        let (progress, bare) = self.0.told().await;
        match (progress.stored(), bare) {
            (found @ Outcome::Found(_), _) => found,
            (Outcome::Absent(_) | Outcome::Failed(_), Some(bare)) => Outcome::Found(bare),
            (outcome, None) => outcome,
        }
    }
}

impl<V> Progress<V> {
    /// End of a call whose task ended early.
    const BROKEN_OFF: Self = Self::Ended(Outcome::Failed(LookupError::BrokenOff));

    /// Returns what is stored, as far as the load has come.
    fn stored(self) -> Outcome<V> {
        match self {
            Self::Obtaining { .. }
            | Self::Ended(Outcome::Failed(LookupError::NotObtained(_) | LookupError::NotDue)) => {
                Outcome::Absent(Absence::NoCredential)
            }
            Self::Ended(outcome) => outcome,
        }
    }
}

impl<V> Clone for Progress<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Ended(outcome) => Self::Ended(outcome.clone()),
            Self::Obtaining { tenant, outcome } => Self::Obtaining {
                tenant: tenant.clone(),
                outcome: outcome.clone(),
            },
        }
    }
}

impl<V> Clone for Wait<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}
