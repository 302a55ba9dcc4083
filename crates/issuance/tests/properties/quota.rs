//! Limits hold in every window, also for several servers at once.

use proptest::prelude::*;
use sekisho_issuance::quota::{Bucket, Limit, Share};

const NOW_MS: i64 = 1_790_000_000_000;

proptest! {
    /// In any window of length `w` at most `count * (1 + w / period)`; and at
    /// least as much as the limit allows is given, if it is asked for.
    #[test]
    fn no_window_has_more_than_its_limit(
        count in 1..400_u32, period in 1..20_000_u32,
        asked in prop::collection::vec((0..5_000_i64, 1..40_u32, any::<bool>()), 1..200),
    ) {
        let limit = Limit::new(count, period).unwrap();
        let (mut bucket, mut now) = (Bucket::default(), NOW_MS);
        let mut granted = Vec::new();
        for (wait, n, first) in asked {
            now += wait * i64::from(period) / 1_000;
            let share = if first { Share::Whole } else { Share::Unreserved };
            let before = limit.available(bucket, now, share);
            let taken = limit.take(&mut bucket, now, n, share);
            prop_assert_eq!(taken.is_ok(), n <= before);
            match taken {
                Ok(()) => granted.push((now, i64::from(n))),
                Err(retry) if n <= count - count.div_ceil(10) => {
                    let ok = limit.take(&mut bucket.clone(), retry.0 * 1_000, n, share);
                    prop_assert!(retry.0 * 1_000 > now && ok.is_ok());
                    let early = limit.take(&mut bucket.clone(), retry.0 * 1_000 - 1_001, n, share);
                    prop_assert!(early.is_err());
                }
                Err(retry) => prop_assert!(retry.0 * 1_000 >= now),
            }
        }
        for (index, (from, _)) in granted.iter().enumerate() {
            let mut sum = 0;
            for (to, n) in &granted[index..] {
                sum += n;
                let window = (to - from) as f64 / (f64::from(period) * 1_000.0);
                let most = f64::from(count) * (1.0 + window);
                prop_assert!(sum as f64 <= most + 1e-6, "{} in {}, at most {}", sum, to - from, most);
            }
        }
    }

    /// Renewals alone, however many, leave a tenth.
    #[test]
    fn the_reserve_holds(count in 2..2_000_u32, asked in prop::collection::vec((0..100_000_i64, 1..50_u32), 1..100)) {
        let limit = Limit::new(count, 10_800).unwrap();
        let (mut bucket, mut now) = (Bucket::default(), NOW_MS);
        for (wait, n) in asked {
            now += wait;
            let _refused = limit.take(&mut bucket, now, n, Share::Unreserved);
            prop_assert!(limit.available(bucket, now, Share::Whole) >= count.div_ceil(10).min(count - 1));
        }
    }

    /// A return undoes a take, and a stored bucket comes back equal.
    #[test]
    fn a_return_undoes_a_take(count in 1..500_u32, n in 1..500_u32, used in 0..500_u32) {
        let limit = Limit::new(count, 3_600).unwrap();
        let mut bucket = Bucket::default();
        let _refused = limit.take(&mut bucket, NOW_MS, used, Share::Whole);
        let before = limit.available(bucket, NOW_MS, Share::Whole);
        if limit.take(&mut bucket, NOW_MS, n, Share::Whole).is_ok() {
            limit.give_back(&mut bucket, n);
        }
        let stored = Bucket::from_stored(bucket.to_stored());
        prop_assert_eq!(limit.available(stored, NOW_MS, Share::Whole), before);
        prop_assert_eq!(limit.available(stored, stored.full_at_ms(), Share::Whole), count);
    }
}
