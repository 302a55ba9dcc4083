//! Hosts that earlier batches of this import gave a certificate. A later pair
//! of a lower rank must not replace it.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use sekisho_certs::{HostPattern, KeyType};

use super::check::Checked;

/// Sets of the hosts and key types of written pairs. They keep 64-bit hashes to
/// save memory: two of 1.8 million collide with probability 10^-7.
#[derive(Default)]
pub(super) struct Settled {
    /// Hosts that a pair names.
    named: HashSet<u64>,
    /// Hosts that a pair covers without naming them.
    covered: HashSet<u64>,
    /// Hosts that a pair of an earlier round names: the renewed pair may be the same one.
    named_before: HashSet<u64>,
    hasher: RandomState,
}

impl Settled {
    /// Returns whether a host's certificate outranks a pair: one that names the host comes
    /// first, then the longer valid. Returns none if the certificate is not of this import.
    pub(super) fn outranks(
        &self,
        of_host: (&HostPattern, KeyType),
        is_named: bool,
        is_longer: bool,
    ) -> Option<bool> {
        let hash = self.hasher.hash_one(of_host);
        let (has_named, covered) = (self.named.contains(&hash), &self.covered);
        match is_named {
            true if has_named => Some(is_longer),
            true => covered.contains(&hash).then_some(false),
            false if has_named || self.named_before.contains(&hash) => Some(true),
            false => covered.contains(&hash).then_some(is_longer),
        }
    }

    /// Begins a further round of a watch, which has the changed pairs alone.
    pub(super) fn begin_round(&mut self) {
        self.named_before.extend(self.named.drain());
        self.covered.clear();
    }

    /// Notes a written batch, without the hosts that kept their certificate. Hosts beyond
    /// the bound are not noted: a later batch may replace their certificate by one of a lower
    /// rank.
    pub(super) fn remember(&mut self, batch: &[Checked], kept: &HashSet<(HostPattern, KeyType)>) {
        for pair in batch {
            let key_type = pair.credential.key_type;
            for host in &pair.hosts {
                if self.named.len() + self.covered.len() == MAX_SETTLED {
                    return;
                }
                if kept.is_empty() || !kept.contains(&(host.clone(), key_type)) {
                    let hashes = match pair.named.contains(host) {
                        true => &mut self.named,
                        false => &mut self.covered,
                    };
                    hashes.insert(self.hasher.hash_one((host, key_type)));
                }
            }
        }
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
        let hash = settled.hasher.hash_one(of_host);
        settled.covered.insert(hash);
        assert_eq!(settled.outranks(of_host, false, false), Some(false));
        assert_eq!(settled.outranks(of_host, false, true), Some(true));
        assert_eq!(settled.outranks(of_host, true, true), Some(false));
        settled.named.insert(hash);
        assert_eq!(settled.outranks(of_host, false, false), Some(true));
        assert_eq!(settled.outranks(of_host, true, false), Some(false));
        assert_eq!(settled.outranks(of_host, true, true), Some(true));
        assert_eq!(settled.outranks((&host, KeyType::Ecdsa), true, true), None);
        // Later it may be the pair itself that is renewed, but no pair that covers the host.
        settled.begin_round();
        for is_longer in [false, true] {
            assert_eq!(settled.outranks(of_host, true, is_longer), None);
            assert_eq!(settled.outranks(of_host, false, is_longer), Some(true));
        }
        let other = (&host, KeyType::Ecdsa);
        assert_eq!(settled.outranks(other, false, true), None);
    }
}
