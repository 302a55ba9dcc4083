//! Singleflight: one load per name, shared by all waiters.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::future::{FutureExt, Shared};
use tokio::sync::oneshot::{Receiver, Sender, channel};

use super::{LookupError, Outcome};
use crate::cache::Absence;
use crate::record::Tenant;

/// A load in flight, shared by its waiters.
pub(super) type Call<V> = Shared<Receiver<Progress<V>>>;

/// Begins a call. All waiters hear once the sender is used or dropped.
pub(super) fn begin<V>() -> (Sender<Progress<V>>, Call<V>) {
    let (complete, progress) = channel();
    (complete, progress.shared())
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
pub struct Wait<V>(Waited<V>);

enum Waited<V> {
    Known(Outcome<V>),
    Call(Call<V>),
}

impl<V> Wait<V> {
    pub(super) fn on(call: Call<V>) -> Self {
        Self(Waited::Call(call))
    }

    pub(super) fn known(outcome: Outcome<V>) -> Self {
        Self(Waited::Known(outcome))
    }

    /// Waits until the load has ended, or is obtaining a certificate: that takes
    /// much longer than a store call.
    pub async fn progress(self) -> Progress<V> {
        match self.0 {
            Waited::Known(outcome) => Progress::Ended(outcome),
            Waited::Call(call) => call.await.unwrap_or(Progress::BROKEN_OFF),
        }
    }
}

impl<V> Future for Wait<V> {
    type Output = Outcome<V>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome<V>> {
        loop {
            let progress = match &mut self.0 {
                Waited::Known(outcome) => return Poll::Ready(outcome.clone()),
                Waited::Call(call) => ready!(call.poll_unpin(context)),
            };
            match progress.unwrap_or(Progress::BROKEN_OFF) {
                Progress::Ended(outcome) => return Poll::Ready(outcome),
                Progress::Obtaining { outcome, .. } => *self = outcome,
            }
        }
    }
}

impl<V> Progress<V> {
    /// End of a call whose load's task ended early.
    const BROKEN_OFF: Self = Self::Ended(Outcome::Failed(LookupError::BrokenOff));
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
        Self(match &self.0 {
            Waited::Known(outcome) => Waited::Known(outcome.clone()),
            Waited::Call(call) => Waited::Call(call.clone()),
        })
    }
}

/// Audience of a load: its observer, and the waiters of its call.
pub(super) struct Audience<V, O> {
    observe: Option<O>,
    /// Sender to the waiters; none once the call has ended.
    complete: Option<Sender<Progress<V>>>,
}

impl<V, O: FnOnce(&Outcome<V>)> Audience<V, O> {
    pub(super) fn new(observe: O, complete: Sender<Progress<V>>) -> Self {
        Self {
            observe: Some(observe),
            complete: Some(complete),
        }
    }

    /// Tells that the store answered with this absence, and that a certificate is
    /// being obtained. Only the first of several attempts is told.
    pub(super) fn obtaining(&mut self, reason: Absence, tenant: Option<&Tenant>) {
        let Some(observe) = self.observe.take() else {
            return;
        };
        observe(&Outcome::Absent(reason));
        let (complete, call) = begin();
        self.tell(Progress::Obtaining {
            tenant: tenant.cloned(),
            outcome: Wait::on(call),
        });
        self.complete = Some(complete);
    }

    /// Tells the outcome.
    pub(super) fn ended(&mut self, outcome: Outcome<V>) {
        if let Some(observe) = self.observe.take() {
            observe(&outcome);
        }
        self.tell(Progress::Ended(outcome));
    }

    fn tell(&mut self, progress: Progress<V>) {
        if let Some(complete) = self.complete.take() {
            // An error tells that all waiters have left.
            let _ = complete.send(progress);
        }
    }
}
