/// Source of jitter: a stable hash of a lineage's name.
///
/// All servers, and all versions of sekisho, draw the same numbers from a name.
/// A hash of the standard library or of foldhash may change with its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Returns the seed of a lineage: FNV-1a of its name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(hash)
    }

    /// Draws uniformly from 0 to `bound - 1`; 0 if `bound` is not positive.
    /// Returns a number below `bound`, always the same one for a `salt`.
    pub(super) fn below(self, salt: i64, bound: i64) -> i64 {
        let bound = u128::try_from(bound).unwrap_or(0);
        let drawn = u128::from(mix(self.0 ^ mix(salt.cast_unsigned())));
        i64::try_from((drawn * bound) >> 64).unwrap_or(0)
    }
}

/// Spreads the bits of `x` (the output function of SplitMix64).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_name_never_change() {
        // Test vectors of FNV-1a and of SplitMix64 seeded with 0.
        assert_eq!(Seed::of("foobar"), Seed(0x8594_4171_f739_67e8));
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(Seed::of("a.example").below(1_790_000_000, 864_000), 150_453);
    }

    #[test]
    fn draws_are_uniform() {
        let mut counts = [0_u32; 10];
        for host in 0..100_000 {
            let drawn = Seed::of(&format!("h{host}.example")).below(host, 10);
            counts[usize::try_from(drawn).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|n| (9_600..10_400).contains(n)),
            "{counts:?}"
        );
        assert_eq!([0, -1, 1].map(|bound| Seed(7).below(0, bound)), [0; 3]);
    }
}
