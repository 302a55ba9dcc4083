//! Hosts that this import has given a certificate: a later pair with a shorter
//! validity must not replace it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use sekisho_certs::{HostPattern, KeyType};

use super::check::Checked;

/// Set of hosts and key types of which this import had a pair. It keeps hashes:
/// a collision is less likely than a disk failure.
#[derive(Default)]
pub(super) struct Settled {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl Settled {
    pub(super) fn holds(&self, host: &HostPattern, key_type: KeyType) -> bool {
        self.hashes.contains(&self.hash(host, key_type))
    }

    /// Notes a written batch. When the set is full, further hosts get the last
    /// of their pairs over batches.
    pub(super) fn remember(&mut self, batch: &[Checked]) {
        for pair in batch {
            for host in &pair.hosts {
                if self.hashes.len() == MAX_SETTLED {
                    return;
                }
                let hash = self.hash(host, pair.credential.key_type);
                self.hashes.insert(hash);
            }
        }
    }

    fn hash(&self, host: &HostPattern, key_type: KeyType) -> u64 {
        self.hasher.hash_one((host, key_type))
    }
}

/// Entries of a table with 2^21 slots before it grows: 19 MB.
const MAX_SETTLED: usize = (1 << 21) / 8 * 7;
