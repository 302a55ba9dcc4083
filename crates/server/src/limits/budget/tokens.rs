//! Token buckets for absent names by prefix.

use std::num::NonZeroU32;
use std::time::Duration;

use sekisho_gate::Rate;

use super::Prefix;

/// Token buckets: the absent names that each prefix may still look up.
#[derive(Debug)]
pub(super) struct AbsenceTokens {
    per_minute: NonZeroU32,
    /// A burst may use a minute's tokens.
    buckets: Rate<Prefix>,
}

impl AbsenceTokens {
    pub(super) fn new(per_minute: usize) -> Self {
        let per_minute = u32::try_from(per_minute).unwrap_or(u32::MAX);
        Self {
            per_minute: NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN),
            buckets: Rate::new(Duration::from_secs(60)),
        }
    }

    /// Takes a token of the prefix and one of the wider prefix around it.
    /// Returns false if either has none.
    pub(super) fn take(&self, prefix: Prefix) -> bool {
        let [own, wider] = self.buckets_of(prefix);
        if self.buckets.take(own.0, own.1).is_err() {
            return false;
        }
        let enough = self.buckets.take(wider.0, wider.1).is_ok();
        if !enough {
            self.buckets.give_back(&own.0, own.1);
        }
        enough
    }

    /// Returns one token to the prefix and its wider prefix.
    pub(super) fn give_back(&self, prefix: Prefix) {
        for (prefix, most) in self.buckets_of(prefix) {
            self.buckets.give_back(&prefix, most);
        }
    }

    /// Returns the bucket of a prefix and of its wider one, with the tokens that each holds.
    fn buckets_of(&self, prefix: Prefix) -> [(Prefix, NonZeroU32); 2] {
        let wide = self.per_minute.saturating_mul(WIDE_FACTOR);
        [(prefix, self.per_minute), (prefix.wider(), wide)]
    }
}

/// A wide prefix has the budget of 16 prefixes.
const WIDE_FACTOR: NonZeroU32 = NonZeroU32::new(16).unwrap();
