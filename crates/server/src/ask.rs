//! Lookup on behalf of a client, charged to the client's prefix.

use std::sync::Arc;

use sekisho_certs::{Absence, Cached, HostName, Lookup, LookupError, Outcome, StoreError};
use tokio::time::{Instant, timeout_at};

use crate::budget::{Budget, Denied, Prefix};
use crate::metrics::{LookupResult, Metrics};
use crate::virtual_host::VirtualHost;

/// Looks up `name` on behalf of a client of `prefix`. The numbers are those of
/// the steps of [`Lookup`]:
///
/// - 1, a cached result, costs nothing;
/// - 2, joining a load in flight, costs nothing either (singleflight);
/// - 3 and 4, a load, need a permit of the prefix, and wait for it. Where too
///   many wait, the answer is a [`LookupError`] that says which bound was met.
///
/// Steps 2 to 4 end at `deadline` with [`LookupError::Late`]. A load that has
/// begun goes on. Returns the counted result, too.
pub(crate) async fn ask(
    lookup: &Arc<Lookup<VirtualHost>>,
    budget: &Budget,
    metrics: &Metrics,
    name: &HostName,
    prefix: Prefix,
    deadline: Instant,
) -> (Outcome<VirtualHost>, LookupResult) {
    let (outcome, how) = match lookup.cached(name) {
        Cached::Hit(outcome) => (outcome, LookupResult::Hit),
        Cached::InFlight(wait) => match timeout_at(deadline, wait).await {
            Ok(outcome) => (outcome, LookupResult::Joined),
            Err(_) => late(),
        },
        Cached::Miss => timeout_at(deadline, load(lookup, budget, name, prefix, deadline))
            .await
            .unwrap_or_else(|_| late()),
    };
    let counted = counted(&outcome, how);
    metrics.lookup(counted);
    (outcome, counted)
}

/// Does steps 3 and 4 of [`ask`]: loads with a permit of the prefix.
async fn load(
    lookup: &Arc<Lookup<VirtualHost>>,
    budget: &Budget,
    name: &HostName,
    prefix: Prefix,
    deadline: Instant,
) -> (Outcome<VirtualHost>, LookupResult) {
    match budget.admit(prefix, deadline).await {
        Ok(permit) => {
            // The load keeps the permit: a client that disconnects must not
            // free it early.
            let observe = move |outcome: &Outcome<VirtualHost>| {
                if matches!(outcome, Outcome::Absent(_)) {
                    permit.was_absent();
                }
            };
            let outcome = lookup.load_with(name, observe).await;
            (outcome, LookupResult::Loaded)
        }
        Err(denied) => (refused(denied), denied.into()),
    }
}

/// Returns whether a lookup failed due to overload or the budget.
pub(crate) fn is_overload(error: &LookupError) -> bool {
    matches!(
        error,
        LookupError::Store(StoreError::Overloaded) | LookupError::OverBudget
    )
}

fn refused(denied: Denied) -> Outcome<VirtualHost> {
    Outcome::Failed(match denied {
        Denied::OverBudget => LookupError::OverBudget,
        Denied::Full => LookupError::Store(StoreError::Overloaded),
    })
}

fn late() -> (Outcome<VirtualHost>, LookupResult) {
    (Outcome::Failed(LookupError::Late), LookupResult::Failed)
}

/// Returns the result to count. Refused calls count apart from answers of a
/// store.
fn counted(outcome: &Outcome<VirtualHost>, how: LookupResult) -> LookupResult {
    match outcome {
        Outcome::Found(_) => how,
        Outcome::Absent(Absence::NoHost) => LookupResult::AbsentHost,
        Outcome::Absent(Absence::NoCredential) => LookupResult::NoCredential,
        Outcome::Absent(Absence::Disabled) => LookupResult::Disabled,
        Outcome::Failed(_) if how == LookupResult::OverBudget => how,
        Outcome::Failed(error) if is_overload(error) => LookupResult::Overloaded,
        Outcome::Failed(_) => LookupResult::Failed,
    }
}

impl From<Denied> for LookupResult {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::OverBudget => Self::OverBudget,
            Denied::Full => Self::Overloaded,
        }
    }
}
