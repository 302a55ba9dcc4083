//! Writes checked pairs: one transaction per batch, without the unchanged ones.

use std::collections::{HashMap, HashSet};

use sekisho_certs::{Clock, CredentialId, HostPattern, HostRecord, StoreError};

use super::check::{Checked, Digest};
use super::deferred::DeferredPairs;
use super::plan::{Plan, validity};
use super::renew;
use super::rules::Rules;
use super::settled::Settled;
use super::source::Refusal;
use super::target::Target;
use crate::cli::lineage::Claims;
use crate::terminal::failure::Result;

/// Writer of batches of pairs into a catalog.
pub(super) struct Writer<'a> {
    target: Target<'a>,
    /// Chains that this import has seen: hosts whose files repeat a certificate
    /// share one credential. Clearing the table at its bound costs at most some
    /// duplicate credentials.
    known_chains: HashMap<Digest, CredentialId>,
    pub(super) settled: Settled,
    deferred: DeferredPairs,
    rules: Rules,
}

impl<'a> Writer<'a> {
    pub(super) fn new(target: Target<'a>, rules: Rules, settled: Settled) -> Self {
        Self {
            target,
            known_chains: HashMap::new(),
            settled,
            deferred: DeferredPairs::default(),
            rules,
        }
    }

    /// Writes the whole batch or, on an error, nothing; returns its plan. Retries if
    /// others wrote the same hosts meanwhile. Pairs that are refused, or put aside, leave the
    /// batch.
    ///
    /// Of several certificates of one type for one host, one that names it is
    /// stored, else the longest valid, in any order of the files. Sorting does
    /// this within a batch, [`Settled`] and [`DeferredPairs`] over batches.
    pub(super) async fn write(&mut self, batch: &mut Vec<Checked>) -> Result<Plan> {
        batch.sort_by_key(|pair| validity(&pair.credential));
        let (mut attempts, mut claims) = (0, Claims::new());
        let mut refused = Vec::new();
        loop {
            let mut plan = self.plan(batch, &mut refused).await?;
            renew::list(self.target.catalog(), &mut plan).await?;
            let written = match self.target.written() {
                Some(sealer) => {
                    renew::plan(sealer, &mut plan, self.rules.renewal, &mut claims).await?;
                    if claims.claim_missing(sealer).await? {
                        continue;
                    }
                    sealer.write(std::mem::take(&mut plan.writes)).await
                }
                None => {
                    self.target.foresee(std::mem::take(&mut plan.writes));
                    Ok(0)
                }
            };
            let Err(error) = written else {
                if self.known_chains.len() + plan.ids.len() > MAX_REMEMBERED {
                    self.known_chains.clear();
                }
                self.known_chains.extend(&plan.ids);
                self.settled.remember(batch, &plan.kept);
                plan.refused = refused;
                return Ok(plan);
            };
            attempts += 1;
            let again = matches!(error, StoreError::Conflict(_)) || error.is_retryable();
            if !again || attempts == MAX_ATTEMPTS {
                return Err(error.into());
            }
            claims.forget();
        }
    }

    /// Returns the next pairs that were put aside, when there are no others.
    pub(super) fn next_deferred(&mut self, most: usize) -> Option<Vec<Checked>> {
        self.deferred.next_batch(most)
    }

    async fn plan(&mut self, batch: &mut Vec<Checked>, refused: &mut Vec<Refusal>) -> Result<Plan> {
        let patterns: HashSet<_> = batch.iter().flat_map(|pair| &pair.hosts).cloned().collect();
        let records = self.target.hosts(&patterns).await?;
        let by_pattern = records.iter().map(|record| (&record.pattern, record));
        let by_pattern: HashMap<_, _> = by_pattern.collect();
        self.apply_rules(batch, &by_pattern, refused);
        let ids = self.referred_or_known(&records, batch);
        let stored = self.target.credentials(&ids).await?;
        let now = Clock::System.now();
        self.deferred.put_aside(batch, &by_pattern, &stored, now);
        let (settled, rules) = (&self.settled, &self.rules);
        Ok(Plan::new(records, &stored, batch, settled, rules, now))
    }

    /// Leaves out pairs for hosts of others, and hosts that are not to be made.
    fn apply_rules(
        &self,
        batch: &mut Vec<Checked>,
        records: &HashMap<&HostPattern, &HostRecord>,
        refused: &mut Vec<Refusal>,
    ) {
        batch.retain_mut(|pair| {
            if self.rules.only_existing {
                pair.hosts.retain(|host| records.contains_key(host));
            }
            let mut there = pair.hosts.iter().filter_map(|host| records.get(host));
            let why = there.find_map(|record| self.rules.refuses(record));
            let is_refused = why.is_some();
            refused.extend(why.map(|why| Refusal {
                hosts: pair.hosts.clone(),
                ..Refusal::new(&pair.place, "a host belongs to others", why)
            }));
            !is_refused
        });
    }

    /// Returns the credentials to compare with the batch: those its hosts refer
    /// to, and those stored earlier with one of its chains.
    fn referred_or_known(&self, records: &[HostRecord], batch: &[Checked]) -> Vec<CredentialId> {
        let referred = records.iter().flat_map(|record| record.references.iter());
        let mut ids: HashSet<_> = referred.map(|(_, id)| id).collect();
        let known = batch.iter().map(|pair| self.known_chains.get(&pair.digest));
        ids.extend(known.flatten());
        ids.into_iter().collect()
    }
}

/// Entries of the table, about 4 MB.
const MAX_REMEMBERED: usize = 65_536;
/// Attempts; more mean that another program writes the same hosts without
/// pause, or that the store is down.
const MAX_ATTEMPTS: usize = 8;

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use sekisho_certs::credential::Dates;
    use sekisho_certs::store::{Precondition, Write};
    use sekisho_certs::{HostPattern, KeyType};
    use sekisho_testkit::{Key, TestCa};
    use tokio::time::sleep;

    use super::super::check::check_pair;
    use super::super::renew::Renewal;
    use super::super::roots::Roots;
    use super::super::source::Names;
    use super::*;
    use crate::cli::lineage::claims::fixture::{claimed, lineage};

    #[tokio::test(start_paused = true)]
    async fn an_import_waits_for_the_server_that_works_on_its_lineage() {
        let (sealer, time, claim) = claimed().await;
        let host = HostRecord::new(HostPattern::parse("a.example").unwrap());
        let put = Write::PutHost(host, Precondition::Absent);
        sealer.write(vec![put]).await.unwrap();
        let made = TestCa::new().issue(&["a.example"], Key::P256);
        let (chain, key) = (made.chain_pem(), made.key_pem());
        let batch = || {
            let (at, roots) = (Path::new("a"), Roots::none());
            let (chain, key) = ((at, chain.as_bytes()), (at, key.as_bytes()));
            let checked = check_pair(chain, key, Names::Leaf, Dates::Any, &roots);
            vec![checked.unwrap_or_else(|refused| panic!("{refused:?}"))]
        };
        let renewal = Renewal {
            key_type: KeyType::Ecdsa,
            now: 1_800_000_000,
        };
        let rules = Rules {
            renewal: Some(renewal),
            ..Rules::default()
        };
        let target = Target::new(Some(&sealer), false);
        let mut writer = Writer::new(target, rules, Settled::default());
        let written = writer.write(&mut batch()).await;
        let error = written.err().expect("it is claimed");
        let text = format!("{error:?}");
        assert!(
            text.contains("another process works on a.example"),
            "{text}"
        );
        let there = lineage(&sealer).await;
        assert_eq!(there.claim.unwrap().epoch, claim.epoch);
        assert_eq!(there.order.unwrap().expose(), b"order");

        let ended = async {
            sleep(Duration::from_secs(5)).await;
            time.fetch_add(61_000, Ordering::SeqCst);
        };
        let mut batch = batch();
        let (written, ()) = tokio::join!(writer.write(&mut batch), ended);
        assert_eq!(written.unwrap().renewed, 1);
        let there = lineage(&sealer).await;
        assert!(there.credential.is_some() && there.due.is_some());
        assert!(there.claim.is_none() && there.order.is_none());
    }
}
