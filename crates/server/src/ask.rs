//! The lookup, with the client's prefix charged for what it costs.

use std::sync::Arc;

use sekisho_certs::{Absence, Cached, HostName, Lookup, LookupError, Outcome, StoreError};
use tokio::time::{Instant, timeout_at};

use crate::budget::{Budget, Denied, Prefix};
use crate::metrics::{LookupResult, Metrics};
use crate::virtual_host::VirtualHost;

/// Asks for `name` on behalf of a client of `prefix`:
///
/// 1. what is cached costs nothing;
/// 2. joining a load that is in flight costs nothing either;
/// 3. a load needs a permit of the prefix, and waits for it. Where too many
///    wait, the answer is a [`LookupError`] that says which bound was met.
///
/// What is not cached is waited for until `deadline`: then nobody knows. A load
/// that has begun goes on. Gives the result that was counted, too.
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

/// Step 3.
async fn load(
    lookup: &Arc<Lookup<VirtualHost>>,
    budget: &Budget,
    name: &HostName,
    prefix: Prefix,
    deadline: Instant,
) -> (Outcome<VirtualHost>, LookupResult) {
    match budget.admit(prefix, deadline).await {
        Ok(permit) => {
            // The permit stays with the load: a client that goes away must not
            // get it back before.
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

/// Whether nobody knows because too much is going on already.
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

/// A refused call is told apart from what a store answered.
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
