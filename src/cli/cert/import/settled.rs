//! Hosts that earlier batches of this import gave a certificate. A later pair
//! with a shorter validity must not replace it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use sekisho_certs::{HostPattern, KeyType};

use super::check::Checked;

/// Set of the hosts and key types of written pairs. It keeps 64-bit hashes to
/// save memory: two of 1.8 million collide with probability 10^-7.
#[derive(Default)]
pub(super) struct Settled {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl Settled {
    pub(super) fn holds(&self, host: &HostPattern, key_type: KeyType) -> bool {
        self.hashes.contains(&self.hash(host, key_type))
    }

    /// Notes a written batch. Hosts beyond the bound are not noted: a later
    /// batch may replace their certificate by one with a shorter validity.
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

/// Entries that fit into 2^21 slots, 9 bytes each, before the table grows: 19
/// MB.
const MAX_SETTLED: usize = (1 << 21) / 8 * 7;
