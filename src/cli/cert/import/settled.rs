//! Hosts that earlier batches of this import gave a certificate. A later pair
//! of a lower rank must not replace it.

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
    /// Returns whether a host's certificate outranks a pair: one that names the host comes
    /// first, then the longer valid. Returns none if the certificate is not of this import.
    pub(super) fn outranks(
        &self,
        (host, key_type): (&HostPattern, KeyType),
        is_named: bool,
        is_longer: bool,
    ) -> Option<bool> {
        let holds = |is_named| self.hashes.contains(&self.hash(host, key_type, is_named));
        match (holds(true), is_named) {
            (true, true) => Some(is_longer),
            (true, false) => Some(true),
            (false, true) => holds(false).then_some(false),
            (false, false) => holds(false).then_some(is_longer),
        }
    }

    /// Notes a written batch, without the hosts that kept their certificate. Hosts beyond
    /// the bound are not noted: a later batch may replace their certificate by one of a lower
    /// rank.
    pub(super) fn remember(&mut self, batch: &[Checked], kept: &HashSet<(HostPattern, KeyType)>) {
        for pair in batch {
            let key_type = pair.credential.key_type;
            for host in &pair.hosts {
                if self.hashes.len() == MAX_SETTLED {
                    return;
                }
                if kept.is_empty() || !kept.contains(&(host.clone(), key_type)) {
                    let is_named = pair.named.contains(host);
                    let hash = self.hash(host, key_type, is_named);
                    self.hashes.insert(hash);
                }
            }
        }
    }

    fn hash(&self, host: &HostPattern, key_type: KeyType, is_named: bool) -> u64 {
        self.hasher.hash_one((host, key_type, is_named))
    }
}

/// Entries that fit into 2^21 slots, 9 bytes each, before the table grows: 19
/// MB.
const MAX_SETTLED: usize = (1 << 21) / 8 * 7;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_a_host_comes_first_then_the_longer_valid() {
        let host = HostPattern::parse("a.example").unwrap();
        let of_host = (&host, KeyType::Rsa);
        let mut settled = Settled::default();
        for is_named in [false, true] {
            for is_longer in [false, true] {
                assert_eq!(settled.outranks(of_host, is_named, is_longer), None);
            }
        }
        let hash = settled.hash(&host, KeyType::Rsa, false);
        settled.hashes.insert(hash);
        assert_eq!(settled.outranks(of_host, false, false), Some(false));
        assert_eq!(settled.outranks(of_host, false, true), Some(true));
        assert_eq!(settled.outranks(of_host, true, true), Some(false));
        let hash = settled.hash(&host, KeyType::Rsa, true);
        settled.hashes.insert(hash);
        assert_eq!(settled.outranks(of_host, false, false), Some(true));
        assert_eq!(settled.outranks(of_host, true, false), Some(false));
        assert_eq!(settled.outranks(of_host, true, true), Some(true));
        assert_eq!(settled.outranks((&host, KeyType::Ecdsa), true, true), None);
    }
}
