//! Lookup on behalf of a client, charged to the client's prefix.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::hook::Charge;
use sekisho_certs::{
    Absence, Cached, HostName, Lookup, LookupError, Outcome, Progress, Served, StoreError, Tenant,
    Wait,
};
use tokio::time::{Instant, timeout_at};

use crate::limits::budget::{Budget, Permit, Prefix};
use crate::limits::log_limiter::LogLimits;
use crate::lookup::virtual_host::VirtualHost;
use crate::observe::metrics::{LookupResult, Metrics};

/// Lookup of hosts on behalf of clients.
pub(crate) struct Hosts {
    pub(crate) lookup: Arc<Lookup<VirtualHost>>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) metrics: Arc<Metrics>,
    /// Time limit of a lookup beside a handshake, as for a request, where no certificate
    /// must be waited for. Lookups of a handshake end at its deadline.
    pub(crate) lookup_limit: Duration,
    pub(crate) log_limits: Arc<LogLimits>,
}

/// Host that a lookup led to.
#[derive(Clone)]
pub(crate) struct FoundHost {
    pub(crate) served: Arc<Served<VirtualHost>>,
    /// The lookup's revision before that.
    pub(crate) revision: u64,
    /// The counted result; taken by the first request that is answered so.
    pub(crate) lookup: Option<LookupResult>,
}

/// Reason why a lookup led to no host.
pub(crate) struct Unfound {
    /// None if the lookup failed.
    pub(crate) absence: Option<Absence>,
    /// The counted result.
    pub(crate) lookup: LookupResult,
}

impl Hosts {
    /// Looks up `name` on behalf of a client of `prefix`. The numbers are those of
    /// the steps of [`Lookup`]:
    ///
    /// - 1, a cached result, costs nothing;
    /// - 2, joining what is in flight, costs nothing either (singleflight);
    /// - 3, a read, needs a permit of the prefix, and waits for it;
    /// - 4, a certificate that is not there at once, counts for the host's tenant, with or
    ///   without a permit before. The read gives its permit back.
    ///
    /// Where too many wait, the failure is a [`LookupError`] that says which bound
    /// was met. Steps 2 to 4 end at `deadline` with [`LookupError::Late`]. Step 4
    /// first moves `deadline`: a certificate takes longer than a store call. What
    /// has begun goes on. The result is counted, and a failure logged.
    ///
    /// Calls of a hook may have led to the name: `charge` charges an absence of steps 1 and
    /// 2 to its client then. Step 3 drops it, and charges its own permit.
    pub(crate) async fn ask(
        &self,
        name: &HostName,
        prefix: Prefix,
        deadline: &mut Instant,
        charge: Option<Charge>,
    ) -> Result<FoundHost, Unfound> {
        let revision = self.lookup.revision();
        let answered = self.outcome(name, prefix, deadline, charge).await;
        self.end(name, revision, answered)
    }

    /// Looks up `name` for a request over plain HTTP, on behalf of a client of `prefix`. A
    /// record without a credential is found, too. The numbers are those of the steps of
    /// [`Lookup`]:
    ///
    /// - 1, a cached result, costs nothing;
    /// - 3, a read, needs a permit of the prefix, and waits for it until `deadline`. A name
    ///   whose record has no credential is not charged: it may be served.
    ///
    /// Nobody waits for a certificate. The result is counted, and a failure logged.
    pub(crate) async fn ask_any(
        &self,
        name: &HostName,
        prefix: Prefix,
        deadline: Instant,
    ) -> Result<FoundHost, Unfound> {
        let revision = self.lookup.revision();
        let permit = self.budget.admit(prefix, deadline);
        let was_absent = Permit::was_absent;
        let answered = ask_any(&self.lookup, name, permit, was_absent, deadline).await;
        self.end(name, revision, answered)
    }

    /// Begins steps 3 and 4 for a host without a certificate, and waits for neither. Nothing
    /// is begun while the cache says that no certificate can be had, or one is on its way. The
    /// read takes a permit of the prefix, and a record without a credential is charged to it, as
    /// for a visit over TLS: below a wildcard, a client can make names up.
    pub(crate) fn obtain_beside(self: &Arc<Self>, name: &HostName, prefix: Prefix) {
        let Cached::Miss = self.lookup.cached(name) else {
            return;
        };
        let (hosts, name) = (Arc::clone(self), name.clone());
        tokio::spawn(async move {
            let deadline = Instant::now() + hosts.lookup_limit;
            let permit = hosts.budget.admit(prefix, deadline);
            if let Ok(Ok(permit)) = timeout_at(deadline, permit).await {
                let observe = charging(permit, Permit::was_absent, true);
                drop(hosts.lookup.load_with(&name, observe));
            }
        });
    }

    /// Counts an outcome, and logs a failure.
    fn end(
        &self,
        name: &HostName,
        revision: u64,
        (outcome, how): (Outcome<VirtualHost>, LookupResult),
    ) -> Result<FoundHost, Unfound> {
        let lookup = counted(&outcome, how);
        self.metrics.lookup(lookup);
        let absence = match outcome {
            Outcome::Found(served) => {
                return Ok(FoundHost {
                    served,
                    revision,
                    lookup: Some(lookup),
                });
            }
            Outcome::Absent(absence) => Some(absence),
            Outcome::Failed(error) => {
                self.log_limits.failed(name, &error);
                None
            }
        };
        Err(Unfound { absence, lookup })
    }

    /// Does the steps of [`Self::ask`]. Returns where a record came from, too.
    async fn outcome(
        &self,
        name: &HostName,
        prefix: Prefix,
        deadline: &mut Instant,
        mut charge: Option<Charge>,
    ) -> (Outcome<VirtualHost>, LookupResult) {
        let how;
        let reached = match self.lookup.cached(name) {
            Cached::Hit(outcome) => {
                spend(charge, &outcome);
                return (outcome, LookupResult::Hit);
            }
            Cached::InFlight(wait) => {
                how = LookupResult::Joined;
                timeout_at(*deadline, wait.progress()).await
            }
            Cached::Miss => {
                drop(charge.take());
                how = LookupResult::Loaded;
                let load = self.load(name, prefix, *deadline);
                timeout_at(*deadline, load).await
            }
        };
        let outcome = match reached {
            Ok(Progress::Ended(outcome)) => {
                spend(charge, &outcome);
                outcome
            }
            Ok(Progress::Obtaining { tenant, outcome }) => {
                spend(charge, &Outcome::Absent(Absence::NoCredential));
                *deadline = Instant::now() + self.budget.certificate_time;
                let certificate = self.certificate(tenant, outcome, *deadline);
                // Boxed: no other lookup has room for it.
                Box::pin(certificate).await
            }
            Err(_) => Outcome::Failed(LookupError::Late),
        };
        (outcome, how)
    }

    /// Looks up a name that a site names, not its client. No certificate is obtained for
    /// it. A call of the store takes a permit of the client's `prefix`. An absent name is
    /// not charged to the client, who did not choose it.
    pub(crate) async fn ask_stored(
        &self,
        name: &HostName,
        prefix: Prefix,
        deadline: Instant,
    ) -> Outcome<VirtualHost> {
        let permit = self.budget.admit(prefix, deadline);
        ask_stored(&self.lookup, name, permit, drop, deadline).await
    }

    /// Looks up the name of a host of `tenant` that is served for long, as
    /// [`Self::ask_stored`] does; if no certificate is needed, as [`Self::ask_any`]. No
    /// client is charged: the name was there when the exchange began.
    pub(crate) async fn look_at(
        &self,
        name: &HostName,
        tenant: &Tenant,
        needs_certificate: bool,
        deadline: Instant,
    ) -> Outcome<VirtualHost> {
        let permit = self.budget.admit_look(tenant.clone());
        match needs_certificate {
            true => ask_stored(&self.lookup, name, permit, drop, deadline).await,
            false => ask_any(&self.lookup, name, permit, drop, deadline).await.0,
        }
    }

    /// Does step 3 of [`Self::ask`]: reads with a permit of the prefix.
    async fn load(
        &self,
        name: &HostName,
        prefix: Prefix,
        deadline: Instant,
    ) -> Progress<VirtualHost> {
        match self.budget.admit(prefix, deadline).await {
            Ok(permit) => {
                let observe = charging(permit, Permit::was_absent, true);
                self.lookup.load_with(name, observe).progress().await
            }
            Err(denied) => Progress::Ended(Outcome::Failed(denied)),
        }
    }

    /// Does step 4 of [`Self::ask`]: waits for a certificate of the tenant.
    async fn certificate(
        &self,
        tenant: Option<Tenant>,
        outcome: Wait<VirtualHost>,
        deadline: Instant,
    ) -> Outcome<VirtualHost> {
        let _waiting = self.metrics.waits_for_certificate();
        let outcome = timeout_at(deadline, outcome);
        match self.budget.wait(tenant, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Outcome::Failed(LookupError::Late),
            Err(crowded) => Outcome::Failed(crowded),
        }
    }
}

/// Looks up what is stored for a name until `deadline`: steps 1 to 3 of [`Hosts::ask`]. A
/// read takes a permit and keeps it until it ends; `was_absent` then has that of an absent
/// name.
pub(crate) async fn ask_stored<P: Send + 'static>(
    lookup: &Arc<Lookup<VirtualHost>>,
    name: &HostName,
    permit: impl Future<Output = Result<P, LookupError>>,
    was_absent: fn(P),
    deadline: Instant,
) -> Outcome<VirtualHost> {
    let stored = async {
        let wait = match lookup.cached_stored(name) {
            Cached::Hit(outcome) => return outcome,
            Cached::InFlight(wait) => wait,
            Cached::Miss => match permit.await {
                Ok(permit) => lookup.read(name, charging(permit, was_absent, true)),
                Err(denied) => return Outcome::Failed(denied),
            },
        };
        wait.stored().await
    };
    let late = |_| Outcome::Failed(LookupError::Late);
    timeout_at(deadline, stored).await.unwrap_or_else(late)
}

/// Looks up what plain HTTP may serve for a name until `deadline`, as [`ask_stored`] does. A
/// record without a credential is found. `was_absent` has the permit of a name without a
/// record, and of a disabled one.
pub(crate) async fn ask_any<P: Send + 'static>(
    lookup: &Arc<Lookup<VirtualHost>>,
    name: &HostName,
    permit: impl Future<Output = Result<P, LookupError>>,
    was_absent: fn(P),
    deadline: Instant,
) -> (Outcome<VirtualHost>, LookupResult) {
    if let Some(outcome) = lookup.hit_any(name) {
        return (outcome, LookupResult::Hit);
    }
    let read = async {
        match permit.await {
            Ok(permit) => {
                let observe = charging(permit, was_absent, false);
                lookup.read_any(name, observe).stored().await
            }
            Err(denied) => Outcome::Failed(denied),
        }
    };
    let late = |_| Outcome::Failed(LookupError::Late);
    let outcome = timeout_at(deadline, read).await.unwrap_or_else(late);
    (outcome, LookupResult::Loaded)
}

/// Keeps the permit of a read until it ends: a client that disconnects must not free it
/// early. `was_absent` has that of an absent name. For TLS, a name whose record has no
/// credential is absent, too.
fn charging<P>(permit: P, was_absent: fn(P), for_tls: bool) -> impl FnOnce(&Outcome<VirtualHost>) {
    move |outcome| match outcome {
        Outcome::Absent(Absence::NoCredential) if !for_tls => {}
        Outcome::Absent(_) => was_absent(permit),
        Outcome::Found(_) | Outcome::Failed(_) => {}
    }
}

/// Charges an absence for the calls that led to it.
fn spend(charge: Option<Charge>, outcome: &Outcome<VirtualHost>) {
    if let (Some(charge), Outcome::Absent(_)) = (charge, outcome) {
        charge();
    }
}

/// Returns whether a lookup failed due to overload or the budget.
pub(crate) fn is_overload(error: &LookupError) -> bool {
    matches!(
        error,
        LookupError::Store(StoreError::Overloaded) | LookupError::OverBudget | LookupError::Crowded
    )
}

/// Returns the result to count. Refused calls count apart from answers of a
/// store.
fn counted(outcome: &Outcome<VirtualHost>, how: LookupResult) -> LookupResult {
    match outcome {
        Outcome::Found(_) => how,
        Outcome::Absent(Absence::NoHost) => LookupResult::AbsentHost,
        Outcome::Absent(Absence::NoCredential) => LookupResult::NoCredential,
        Outcome::Absent(Absence::Disabled) => LookupResult::Disabled,
        Outcome::Failed(LookupError::OverBudget) => LookupResult::OverBudget,
        Outcome::Failed(error) if is_overload(error) => LookupResult::Overloaded,
        Outcome::Failed(_) => LookupResult::Failed,
    }
}

#[cfg(test)]
mod tests;
