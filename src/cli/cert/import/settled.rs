//! Which hosts an import has given a certificate already, so that a later pair
//! with a shorter validity does not take it away.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use sekisho_certs::{HostPattern, KeyType};

use super::check::Checked;

/// Hosts with key types of which this import had a pair. Only hashes are kept:
/// that two of them are the same is less likely than a broken disk.
#[derive(Default)]
pub(super) struct Settled {
    hashes: HashSet<u64>,
    hasher: RandomState,
}

impl Settled {
    pub(super) fn holds(&self, host: &HostPattern, key_type: KeyType) -> bool {
        self.hashes.contains(&self.hash(host, key_type))
    }

    /// Notes what was written. Once it is full, further hosts get the last of
    /// their pairs that came in different batches.
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

/// What a table of 2^21 slots takes before it grows: 19 MB.
const MAX_SETTLED: usize = (1 << 21) / 8 * 7;
