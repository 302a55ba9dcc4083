//! Wait for the CNAMEs that the owners of hosts are to set, before any CA is asked.

use sekisho_certs::credential::Date;
use sekisho_certs::store::Write;
use sekisho_certs::{Fence, LastError};

use super::NoCertificate;
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
        let deadline = self.validity().map_or(i64::MAX, Validity::deadline);
        let until = until.min(deadline);
        let missing = match self.missing_cname().await {
            Ok(missing) => missing,
            Err(failure) => return Some(self.failed(failure).await),
        };
        let (now, missing) = match missing {
            Some(missing) if self.now() < until => (self.now(), missing),
            missing => {
                self.state.awaits_cname_until = None;
                let failure = missing.map(Failure::Dns)?;
                return Some(self.failed(failure).await);
            }
        };
        let text = format!("waits until {}: {}", Date(until), missing.fault);
        let seed = Seed::of(self.lineage.name.as_str());
        let due = cname_look(now, seed);
        self.lineage.due = Some(due);
        self.lineage.last_error = Some(LastError {
            at: now,
            text: text.clone(),
        });
        self.lineage.order = self.state.to_secret();
        self.lineage.claim = None;
        let put = Write::PutLineage(self.lineage.clone(), Fence::Epoch(self.held.epoch));
        self.held.end().await;
        Some(match self.write(vec![put]).await {
            Ok(()) => Err(NoCertificate::new(text, Some(due))),
            Err(failure) => self.failed(failure).await,
        })
    }

    /// Returns why a name is not proved by its CNAME; none if all are.
    async fn missing_cname(&mut self) -> Result<Option<dns01::Error>, Failure> {
        self.names = self.names_in_use().await?;
        let solvers = &self.issuer.solvers;
        let Some(served) = solvers.served() else {
            let why = "this server has no zone in [acme.dns] with serve";
            return Ok(Some(dns01::Error {
                name: self.lineage.name.as_str().into(),
                fault: dns01::Fault::Unreachable(why.to_owned()),
            }));
        };
        let labels = served.labels(&self.issuer.sealer).await?;
        for name in self.names.iter().filter(|name| solvers.dns(name).is_none()) {
            let delegation = served.delegation(name, &self.lineage.tenant, labels);
            if let Err(error) = served.locate(name, &delegation, "").await {
                return Ok(Some(error));
            }
        }
        Ok(None)
    }
}
