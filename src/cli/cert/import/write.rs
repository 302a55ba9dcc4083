//! Writing checked pairs: what is the same is left alone, the rest goes into
//! the catalog as one transaction.

use std::collections::{HashMap, HashSet};

use sekisho_certs::{CredentialId, HostRecord, Sealer, StoreError};

use super::check::{Checked, Digest};
use super::plan::{Older, Plan};
use super::report::Counts;
use super::settled::Settled;
use crate::cli::failure::Result;

/// Writes batches of pairs into a catalog.
pub(super) struct Writer<'a> {
    sealer: &'a Sealer,
    /// Chains that this import has met, so that hosts whose files repeat one
    /// certificate share one credential.
    met: Met,
    settled: Settled,
    older: Older,
}

/// What became of a batch.
pub(super) struct Written {
    pub(super) counts: Counts,
    /// What may surprise.
    pub(super) notes: Vec<String>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(sealer: &'a Sealer, older: Older) -> Self {
        Self {
            sealer,
            met: Met::default(),
            settled: Settled::default(),
            older,
        }
    }

    /// All of the batch or, on an error, nothing of it. Starts over if others
    /// wrote the same hosts meanwhile.
    ///
    /// Of several certificates of one type for one host, the one that is valid
    /// longest is stored, whatever the order of the files: within a batch by
    /// sorting, over batches for as many hosts as [`Settled`] holds.
    pub(super) async fn write(&mut self, mut batch: Vec<Checked>) -> Result<Written> {
        batch.sort_by_key(|pair| pair.credential.not_after);
        let mut attempts = 0;
        loop {
            let plan = self.plan(&batch).await?;
            let Err(error) = self.sealer.write(plan.writes).await else {
                self.met.remember(&plan.ids);
                self.settled.remember(&batch);
                return Ok(Written {
                    counts: plan.counts,
                    notes: plan.notes,
                });
            };
            attempts += 1;
            let again = matches!(error, StoreError::Conflict(_)) || error.is_retryable();
            if !again || attempts == MAX_ATTEMPTS {
                return Err(error.into());
            }
        }
    }

    async fn plan(&self, batch: &[Checked]) -> Result<Plan> {
        let patterns: HashSet<_> = batch.iter().flat_map(|pair| &pair.hosts).cloned().collect();
        let patterns: Vec<_> = patterns.into_iter().collect();
        let records = self.sealer.catalog().hosts(&patterns).await?;
        let ids = self.referred_or_met(&records, batch);
        let stored = self.sealer.catalog().credentials(&ids).await?;
        Ok(Plan::new(
            records,
            &stored,
            batch,
            &self.settled,
            self.older,
        ))
    }

    /// What must be compared with the batch: what its hosts refer to by now,
    /// and what was stored before with one of its chains.
    fn referred_or_met(&self, records: &[HostRecord], batch: &[Checked]) -> Vec<CredentialId> {
        let referred = records.iter().flat_map(|record| record.references.iter());
        let mut ids: HashSet<_> = referred.map(|(_, id)| id).collect();
        ids.extend(batch.iter().filter_map(|pair| self.met.id(pair.digest)));
        ids.into_iter().collect()
    }
}

/// Chains by their digests; forgotten from time to time, which costs no more
/// than a credential that could have been shared.
#[derive(Default)]
struct Met(HashMap<Digest, CredentialId>);

impl Met {
    fn id(&self, chain: Digest) -> Option<CredentialId> {
        self.0.get(&chain).copied()
    }

    fn remember(&mut self, ids: &HashMap<Digest, CredentialId>) {
        if self.0.len() + ids.len() > MAX_REMEMBERED {
            self.0.clear();
        }
        self.0.extend(ids);
    }
}

/// About 4 MB.
const MAX_REMEMBERED: usize = 65_536;
/// More means that somebody writes the same hosts without pause, or that the
/// store is gone for longer than a moment.
const MAX_ATTEMPTS: usize = 8;
