//! Wait for the CNAMEs that the owners of hosts are to set, before any CA is asked.

use sekisho_certs::LastError;
use sekisho_certs::credential::Date;

use super::attempt::Attempt;
use super::failure::Failure;
use super::working::Outcome;
use crate::schedule::{Seed, Validity, cname_look};
use crate::solver::dns01;

impl Attempt<'_> {
    /// Looks whether all CNAMEs are set that a command waits for. None if the order may
    /// begin; else the attempt is over, and no failure until the time has passed. A
    /// certificate in use does not wait beyond its deadline.
    pub(super) async fn await_cnames(&mut self) -> Option<Outcome> {
        let until = self.state.awaits_cname_until?;
        let until = until.min(self.validity().map_or(i64::MAX, Validity::deadline));
        let done = self.check_cnames().await;
        let now = self.now();
        match done {
            Err(Failure::Dns(missing)) if now < until => {
                let text = format!("waits until {}: {}", Date(until), missing.fault);
                let due = cname_look(now, Seed::of(self.lineage.name.as_str()));
                Some(self.postponed(due, Some(LastError { at: now, text })).await)
            }
            Ok(()) | Err(Failure::Dns(_)) => {
                self.state.awaits_cname_until = None;
                Some(self.failed(done.err()?).await)
            }
            Err(failure) => Some(self.failed(failure).await),
        }
    }

    async fn check_cnames(&mut self) -> Result<(), Failure> {
        self.names = self.names_in_use().await?;
        let solvers = &self.issuer.solvers;
        let Some(served) = solvers.served() else {
            let why = "this server has no zone in [acme.dns] with serve";
            let fault = dns01::Fault::Unreachable(why.to_owned());
            return Err(fault.at(self.lineage.name.as_str()).into());
        };
        let labels = served.labels(&self.issuer.sealer).await?;
        for name in self.names.iter().filter(|name| solvers.dns(name).is_none()) {
            let delegation = served.delegation(name, &self.lineage.tenant, &labels);
            served.check(name, &delegation).await?;
        }
        Ok(())
    }
}
