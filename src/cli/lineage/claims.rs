//! Claims of a command on lineages that it changes.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::bail;
use sekisho_certs::store::Write;
use sekisho_certs::{Fence, Lineage, LineageName, Sealer, Secret, ToClaim};
use sekisho_issuance::holder;
use tokio::time::{Instant, sleep};

use crate::terminal::failure::Result;

/// Claims on the lineages that a batch changes: a server may work on one, and what it
/// has saved of its order must not be lost.
pub(crate) struct Claims {
    holder: String,
    held: HashMap<LineageName, u64>,
    missing: Vec<LineageName>,
}

impl Claims {
    pub(crate) fn new() -> Self {
        Self {
            holder: format!("command-{}", holder::fresh()),
            held: HashMap::new(),
            missing: Vec::new(),
        }
    }

    /// Returns the write of a lineage, which releases its claim; none before there is
    /// one.
    pub(crate) fn write(&mut self, mut lineage: Lineage<Secret>) -> Option<Write<Secret>> {
        let Some(epoch) = self.held.get(&lineage.name) else {
            self.missing.push(lineage.name);
            return None;
        };
        lineage.claim = None;
        Some(Write::PutLineage(lineage, Fence::Epoch(*epoch)))
    }

    /// Claims what the writes of a batch lacked, and waits for the processes that work
    /// on it. Returns true if there was any: the lineages are then to be read again.
    pub(crate) async fn claim_missing(&mut self, sealer: &Sealer) -> Result<bool> {
        if self.missing.is_empty() {
            return Ok(false);
        }
        let begun = Instant::now();
        loop {
            let named = ToClaim::Named(self.missing.clone());
            let claimed = sealer.catalog().claim(named, &self.holder, CLAIM).await?;
            for (name, claim) in claimed {
                self.missing.retain(|missing| *missing != name);
                self.held.insert(name, claim.epoch);
            }
            let Some(name) = self.missing.first() else {
                return Ok(true);
            };
            if begun.elapsed() > LONGEST_WAIT {
                bail!("another process works on {name}; try again in a minute");
            }
            sleep(LOOK).await;
        }
    }

    /// Forgets claims that may have been lost, after a conflict.
    pub(crate) fn forget(&mut self) {
        self.held.clear();
    }
}

/// A command that was killed holds its lineages up for so long.
const CLAIM: Duration = Duration::from_mins(1);
/// Wait for an order that a server works on: it takes seconds, with DNS-01 minutes.
const LONGEST_WAIT: Duration = Duration::from_mins(2);
/// Time between two tries to claim.
const LOOK: Duration = Duration::from_millis(500);

#[cfg(test)]
pub(crate) mod fixture {
    use std::sync::Arc;
    use std::sync::atomic::AtomicI64;

    use sekisho_certs::seal::{KeyRing, MasterKey};
    use sekisho_certs::{Catalog, Claim, Clock, HostPattern, Tenant};
    use sekisho_testkit::Memory;

    use super::*;

    /// Makes a catalog with a lineage that a server works on. Returns its time, too,
    /// and the claim.
    pub(crate) async fn claimed() -> (Sealer, Arc<AtomicI64>, Claim) {
        let time = Arc::new(AtomicI64::new(1_800_000_000_000));
        let catalog: Arc<dyn Catalog> = Arc::new(Memory::new(Clock::Manual(Arc::clone(&time))));
        let ring = KeyRing::new(MasterKey::new(&[7; 32]));
        let sealer = Sealer::create(catalog, ring).await.unwrap();
        let names = [HostPattern::parse("a.example").unwrap()];
        let lineage = Lineage::new(Tenant::default(), names).unwrap();
        let name = lineage.name.clone();
        let put = Write::PutLineage(lineage.clone(), Fence::Absent);
        sealer.write(vec![put]).await.unwrap();
        let named = ToClaim::Named(vec![name]);
        let claim = sealer.catalog().claim(named, "server", CLAIM).await;
        let claim = claim.unwrap().pop().unwrap().1;
        let begun = Lineage {
            order: Some(Secret::new(b"order".to_vec())),
            claim: Some(claim.clone()),
            ..lineage
        };
        let put = Write::PutLineage(begun, Fence::Epoch(claim.epoch));
        sealer.write(vec![put]).await.unwrap();
        (sealer, time, claim)
    }

    /// Reads the lineage.
    pub(crate) async fn lineage(sealer: &Sealer) -> Lineage<Secret> {
        let name = LineageName::parse("a.example").unwrap();
        let found = sealer.catalog().lineages(&[name]).await.unwrap().pop();
        sealer.open_lineage(found.unwrap()).await.unwrap()
    }
}
