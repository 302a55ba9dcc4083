//! Wait for the CNAMEs that customers are to set, before any CA is asked.

use sekisho_certs::credential::Date;
use sekisho_certs::{HostPattern, LastError};

use super::attempt::Attempt;
use super::failure::Failure;
use super::working::Outcome;
use crate::schedule::{Seed, Validity, cname_look, renewal_turn};
use crate::solver::{Delegation, dns01};

impl Attempt<'_> {
    /// Looks whether all CNAMEs are set that a command waits for. None if the order may
    /// begin; else the attempt is over, and no failure until the time has passed. A
    /// certificate in use does not wait beyond its deadline.
    pub(super) async fn await_cnames(&mut self) -> Option<Outcome> {
        let until = self.state.awaits_cname_until?;
        let until = until.min(self.validity().map_or(i64::MAX, Validity::deadline));
        let done: Result<_, Failure> = async {
            self.names = self.names_in_use().await?;
            self.check_cnames(&self.names).await
        }
        .await;
        let now = self.now();
        match done {
            Err(Failure::Dns(missing)) if now < until => {
                let text = format!("waits until {}: {}", Date(until), missing.fault);
                let due = cname_look(now, Seed::of(self.lineage.name.as_str()));
                self.lineage.turn = now + BEHIND_ORDERS;
                Some(self.postponed(due, Some(LastError { at: now, text })).await)
            }
            Ok(_) | Err(Failure::Dns(_)) => {
                self.end_wait();
                Some(self.failed(done.err()?).await)
            }
            Err(failure) => Some(self.failed(failure).await),
        }
    }

    /// Ends the wait: the order has a turn among those of its tenant from then on, or as a renewal.
    pub(super) fn end_wait(&mut self) {
        if self.state.awaits_cname_until.take().is_some() {
            let (now, turns) = (self.now(), &self.issuer.turns);
            let renewal = self.validity().map(renewal_turn);
            let first = || turns.next(&self.lineage.tenant, now);
            self.lineage.turn = renewal.unwrap_or_else(first);
        }
    }

    /// Checks that the CNAMEs are set of all names that have no zone in the configuration.
    /// Returns them in the order of these names.
    pub(super) async fn check_cnames(
        &self,
        names: &[HostPattern],
    ) -> Result<Vec<Delegation>, Failure> {
        let solvers = &self.issuer.solvers;
        let names = names.iter().filter(|name| solvers.dns(name).is_none());
        let hosts: Vec<_> = names.map(|name| (name, &self.lineage.tenant)).collect();
        let Some((first, _)) = hosts.first() else {
            return Ok(Vec::new());
        };
        let Some(served) = solvers.served() else {
            let why = "this server has no zone in [acme.dns] with serve";
            let fault = dns01::Fault::Unreachable(why.to_owned());
            return Err(fault.at(first.as_str()).into());
        };
        let delegations = served.delegations(&self.issuer.sealer, &hosts).await?;
        for ((name, _), delegation) in hosts.iter().zip(&delegations) {
            served.check(name, delegation).await?;
        }
        Ok(delegations)
    }
}

/// Seconds by which the turn of a look comes after those of all orders: 100 years.
const BEHIND_ORDERS: i64 = 100 * 365 * 24 * 3600;
