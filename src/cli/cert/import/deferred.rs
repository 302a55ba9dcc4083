//! Pairs that wait for the end of an import: a host has another certificate, which the source may
//! still name for it. Else two of one host would replace each other in each import.

use std::collections::{HashMap, HashSet};

use sekisho_certs::{HostPattern, HostRecord};

use super::check::Checked;
use super::plan::KnownCert;

/// Pairs that were put aside. Those beyond the bound are stored at once.
#[derive(Default)]
pub(super) struct DeferredPairs {
    pairs: Vec<Checked>,
    is_over: bool,
}

impl DeferredPairs {
    /// Puts the pairs of a batch aside that are not stored yet, and cover a host that they are
    /// not named for and that has a valid certificate.
    pub(super) fn put_aside(
        &mut self,
        batch: &mut Vec<Checked>,
        records: &HashMap<&HostPattern, &HostRecord>,
        stored: &[KnownCert],
        now: i64,
    ) {
        if self.is_over || self.pairs.len() >= MAX_DEFERRED {
            return;
        }
        let digests: HashSet<_> = stored.iter().map(|one| one.digest).collect();
        let valid = stored.iter().filter(|one| one.not_after >= now);
        let valid: HashSet<_> = valid.map(|one| one.id).collect();
        let may_be_others = |pair: &mut Checked| {
            let key_type = pair.credential.key_type;
            let mut covered = pair.hosts.iter().filter(|host| !pair.named.contains(host));
            let has_valid = covered.any(|host| {
                let record = records.get(host);
                let id = record.and_then(|record| record.references.of(key_type));
                id.is_some_and(|id| valid.contains(&id))
            });
            has_valid && !digests.contains(&pair.digest)
        };
        self.pairs.extend(batch.extract_if(.., may_be_others));
    }

    /// Returns the next pairs, once all others are stored.
    pub(super) fn next_batch(&mut self, most: usize) -> Option<Vec<Checked>> {
        self.is_over = true;
        let first = self.pairs.len().saturating_sub(most);
        let batch = self.pairs.split_off(first);
        (!batch.is_empty()).then_some(batch)
    }
}

/// Pairs that wait, some 4 KB each: 16 MB. Those of a batch may pass it.
const MAX_DEFERRED: usize = 4096;
