//! Limits on reads by client prefix, and on waits for certificates by tenant.
//!
//! A name that is not cached costs a read: 1 to 8 store calls, each of up to three
//! questions to a catalog that lags. Reads after an issuance take no permit: orders have
//! bounds of their own. Two limits bound the loads of a client prefix. Absent names are charged to a token
//! bucket per prefix. Permits for loads in flight go round robin to the prefixes
//! that wait, and to the tenants with looks at their hosts. A load gives its permit back
//! with the store's answer: a lookup that then waits for a certificate is counted for the
//! host's tenant instead. A read of a challenge counts as a load, and an unknown challenge
//! as an absent name.

mod over;
mod tokens;

use std::sync::Arc;
use std::time::Duration;

pub(crate) use sekisho_certs::Prefix;
use sekisho_certs::{LookupError, StoreError, Tenant};
use sekisho_gate::{self as gate, Gate, Sharing};
use tokio::time::Instant;

use crate::limits::settings::Limits;
use over::Over;
use tokens::AbsenceTokens;

/// Source of permits for loads, and bound on waits for certificates.
#[derive(Debug)]
pub(crate) struct Budget {
    tokens: Arc<AbsenceTokens>,
    over: Over,
    in_flight: Gate<Account>,
    /// Waits for a certificate. This gate has no permit to give: its queue is the waits. All
    /// names without a record share those of one tenant: anybody can make up such names.
    certificates: Gate<Option<Tenant>>,
    /// Time limit of a handshake from the moment at which it begins to wait for a certificate.
    pub(crate) certificate_time: Duration,
}

/// Account that a load in flight stands on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Account {
    /// Loads that clients of a prefix cause.
    Client(Prefix),
    /// Looks at hosts of a tenant that are served for long.
    Looks(Tenant),
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            tokens: Arc::new(AbsenceTokens::new(limits.absent_per_prefix)),
            over: Over::default(),
            in_flight: Gate::new(
                limits.loads,
                Sharing::WhileOthersWait(limits.loads_per_prefix),
                limits.loads_waiting,
            ),
            certificates: Gate::new(0, Sharing::FewerThanLeft, limits.certificates.waiting),
            certificate_time: limits.certificates.time,
        }
    }

    /// Waits for a permit for one load. The caller bounds the wait by `deadline`.
    /// A load takes a token of the prefix. The token comes back unless the name is absent or
    /// a certificate must be waited for. A prefix without tokens waits for the bucket to
    /// refill: its loads of names that exist still get through, slowed down.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`], if too many wait for a permit already.
    /// [`LookupError::OverBudget`], if too many clients without a token wait already, or the
    /// bucket refills too late for the deadline.
    pub(crate) async fn admit(
        &self,
        prefix: Prefix,
        deadline: Instant,
    ) -> Result<Permit, LookupError> {
        // Taken before the wait: a caller that leaves gives the token back.
        let token = self.token(prefix, deadline).await?;
        let in_flight = self.in_flight.enter(Account::Client(prefix)).await;
        Ok(Permit {
            token,
            _in_flight: in_flight.map_err(full)?,
        })
    }

    /// Waits for a permit for a look at a host of `tenant`. No prefix is charged: one whose
    /// budget is spent, or whose loads wait, would else keep a removed host served.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`], if too many wait already, most of them for looks of the
    /// tenant.
    pub(crate) async fn admit_look(
        &self,
        tenant: Tenant,
    ) -> Result<gate::Permit<Account>, LookupError> {
        let entered = self.in_flight.enter(Account::Looks(tenant)).await;
        entered.map_err(full)
    }

    /// Waits for `outcome`, a certificate of `tenant`, whether the caller started the load or
    /// joined it. When too many wait, the newest of the tenant with most of them gives way
    /// to a tenant with fewer.
    ///
    /// # Errors
    /// [`LookupError::Crowded`], if too many wait, or this one gave way.
    pub(crate) async fn wait<T>(
        &self,
        tenant: Option<Tenant>,
        outcome: impl Future<Output = T>,
    ) -> Result<T, LookupError> {
        tokio::select! {
            biased;
            outcome = outcome => Ok(outcome),
            _ = self.certificates.enter(tenant) => Err(LookupError::Crowded),
        }
    }

    /// Takes a token of the prefix without a wait; none if there is none now.
    pub(crate) fn try_token(&self, prefix: Prefix) -> Option<AbsenceToken> {
        self.tokens.take(prefix).then(|| AbsenceToken {
            tokens: Arc::clone(&self.tokens),
            prefix,
            spent: false,
        })
    }

    /// Waits for a token of the prefix, without a permit for a load. The caller bounds the
    /// wait by `deadline`.
    ///
    /// # Errors
    /// [`LookupError::OverBudget`], as for [`Self::admit`].
    pub(crate) async fn token(
        &self,
        prefix: Prefix,
        deadline: Instant,
    ) -> Result<AbsenceToken, LookupError> {
        if let Some(token) = self.try_token(prefix) {
            return Ok(token);
        }
        let waiting = self.over.enter(prefix, deadline)?;
        loop {
            waiting.pause().await?;
            if let Some(token) = self.try_token(prefix) {
                return Ok(token);
            }
        }
    }
}

/// Permit for one load. Dropping it gives the token back.
#[derive(Debug)]
pub(crate) struct Permit {
    token: AbsenceToken,
    _in_flight: gate::Permit<Account>,
}

impl Permit {
    /// Spends the token: the store has nothing to serve for the name.
    pub(crate) fn was_absent(self) {
        self.token.spend();
    }
}

/// Token taken from the prefix's bucket. Dropping it gives it back, unless it is
/// spent.
#[derive(Debug)]
pub struct AbsenceToken {
    tokens: Arc<AbsenceTokens>,
    prefix: Prefix,
    spent: bool,
}

impl AbsenceToken {
    /// Spends the token: the client's name led to nothing.
    pub fn spend(mut self) {
        self.spent = true;
    }
}

impl Drop for AbsenceToken {
    fn drop(&mut self) {
        if !self.spent {
            self.tokens.give_back(self.prefix);
        }
    }
}

/// Returns the error of a full queue for permits.
fn full(_: gate::Denied) -> LookupError {
    StoreError::Overloaded.into()
}

#[cfg(test)]
mod tests;
