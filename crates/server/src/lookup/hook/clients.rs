//! Budget of a hook's clients, and the stores that a hook asks for them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::{HostName, Lookup, LookupError, Outcome};
use tokio::time::{Instant, timeout_at};

use super::Token;
use crate::limits::budget::{Budget, Permit};
use crate::limits::settings::Limits;
use crate::lookup::ask::ask_stored;
use crate::lookup::virtual_host::VirtualHost;

/// Stores that a hook asks on behalf of clients, and the budget of their prefixes,
/// which the server's own lookups share. Clones are one.
#[derive(Clone)]
pub struct Clients {
    lookup: Arc<Lookup<VirtualHost>>,
    pub(crate) budget: Arc<Budget>,
    /// Limit of a lookup.
    patience: Duration,
}

impl Clients {
    /// Makes the one value for a server with these limits.
    #[must_use]
    pub fn new(lookup: &Arc<Lookup<VirtualHost>>, limits: &Limits) -> Self {
        Self {
            lookup: Arc::clone(lookup),
            budget: Arc::new(Budget::new(limits)),
            patience: limits.handshake,
        }
    }

    /// Takes a token of the client's prefix, for calls that may lead to nothing. A
    /// prefix over its budget waits, at most until `deadline`.
    ///
    /// # Errors
    /// If the prefix is over its budget.
    pub async fn admit(&self, client: IpAddr, deadline: Instant) -> Result<Token, LookupError> {
        let token = self.budget.token(client.into(), deadline);
        let admitted = timeout_at(deadline, token).await;
        admitted.unwrap_or(Err(LookupError::OverBudget))
    }

    /// Takes a token of the client's prefix without a wait; none if there is none now.
    #[must_use]
    pub fn try_admit(&self, client: IpAddr) -> Option<Token> {
        self.budget.try_token(client.into())
    }

    /// Returns what the cache that handshakes use knows of a host; none if a lookup would
    /// ask a store, or wait for another's answer.
    #[must_use]
    pub fn cached(&self, name: &HostName) -> Option<Outcome<VirtualHost>> {
        self.lookup.hit_stored(name)
    }

    /// Looks up a host in the stores, through the cache that handshakes use, and
    /// obtains no certificate. A call of the store needs a permit of the client's
    /// prefix, which is charged with an absent host.
    pub async fn lookup(&self, name: &HostName, client: IpAddr) -> Outcome<VirtualHost> {
        let deadline = Instant::now() + self.patience;
        let permit = self.budget.admit(client.into(), deadline);
        ask_stored(&self.lookup, name, permit, Permit::was_absent, deadline).await
    }
}
