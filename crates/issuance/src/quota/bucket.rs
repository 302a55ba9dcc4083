/// Rate limit of a CA: so many in a period, as a token bucket.
///
/// The whole count may be taken at once; it comes back evenly over the period.
/// A window of length `w` thereby has at most `count * (1 + w / period)`, which
/// is how Let's Encrypt counts as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    count: u32,
    /// Microseconds until one token is back, rounded up.
    interval: i64,
}

/// State of one bucket: the Unix microsecond at which it is full again (the
/// theoretical arrival time of GCRA).
///
/// One number, so that a catalog can hold it as a row that expires at
/// [`Bucket::full_at_ms`]. A row that is missing is a full bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket(i64);

/// Part of a bucket that an order may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it: first certificates, and renewals past their deadline.
    Whole,
    /// All but a tenth, rounded up, which first certificates have: other renewals.
    /// Of a limit of one, that is nothing to leave: it may take it.
    Unreserved,
}

/// Refusal by a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit allows none before {0}")]
pub struct RetryAt(
    /// Unix second from which the same request succeeds, if no other comes first.
    pub i64,
);

impl Limit {
    /// Makes a limit of `count` per `period` seconds; none if either is 0.
    #[must_use]
    pub const fn new(count: u32, period: u32) -> Option<Self> {
        if count == 0 || period == 0 {
            return None;
        }
        let (count_64, micros) = (count as i64, period as i64 * MICROS);
        let interval = micros / count_64 + (micros % count_64 != 0) as i64;
        Some(Self { count, interval })
    }

    /// Takes `n` tokens.
    ///
    /// `now_ms` must be one clock for all servers, the catalog's where it has one.
    /// A bucket that is full further away than a period and
    /// [`Limit::close_until`] allow was written by a wrong clock; it counts as
    /// full, and the CA has the last word.
    ///
    /// # Errors
    /// Returns from when it succeeds; the bucket stays as it was. More than the
    /// share's size at once never succeeds; the time is that of the whole share.
    pub fn take(
        self,
        bucket: &mut Bucket,
        now_ms: i64,
        n: u32,
        share: Share,
    ) -> Result<(), RetryAt> {
        let now = now_ms.saturating_mul(1000);
        let room = self.size(share) * self.interval;
        let cost = i64::from(n) * self.interval;
        let full_at = self.full_at(*bucket, now);
        if cost <= room - (full_at - now) {
            *bucket = Bucket(full_at + cost);
            return Ok(());
        }
        let from = full_at + cost.min(room) - room;
        Err(RetryAt(
            from.div_euclid(MICROS) + i64::from(from.rem_euclid(MICROS) != 0),
        ))
    }

    /// Returns how many tokens [`Limit::take`] would give.
    #[must_use]
    pub fn available(self, bucket: Bucket, now_ms: i64, share: Share) -> u32 {
        let now = now_ms.saturating_mul(1000);
        let room = self.size(share) * self.interval - (self.full_at(bucket, now) - now);
        u32::try_from(room / self.interval).unwrap_or(0)
    }

    /// Takes a token that is spent already, such as a failed validation, also
    /// from an empty bucket.
    pub fn charge(self, bucket: &mut Bucket, now_ms: i64) {
        let now = now_ms.saturating_mul(1000);
        let most = now + self.size(Share::Whole) * self.interval;
        let full_at = self.full_at(*bucket, now);
        *bucket = Bucket(full_at.max(most.min(full_at + self.interval)));
    }

    /// Returns `n` tokens that were taken and not used.
    pub fn give_back(self, bucket: &mut Bucket, n: u32) {
        bucket.0 = bucket.0.saturating_sub(i64::from(n) * self.interval);
    }

    /// Closes the bucket until a Unix second, at most 8 days ahead: at that second
    /// one token is there. For a 429 with `Retry-After`, after which others than
    /// this cluster have taken from the limit.
    pub fn close_until(self, bucket: &mut Bucket, now_ms: i64, until: i64) {
        let now = now_ms.saturating_mul(1000);
        let until = until.saturating_mul(MICROS).min(now + LONGEST_CLOSURE);
        let full_at = until + (self.size(Share::Whole) - 1) * self.interval;
        *bucket = Bucket(full_at.max(self.full_at(*bucket, now)));
    }

    fn size(self, share: Share) -> i64 {
        let count = i64::from(self.count);
        match share {
            Share::Whole => count,
            Share::Unreserved => (count - (count + 9) / 10).max(1),
        }
    }

    fn full_at(self, bucket: Bucket, now: i64) -> i64 {
        let latest = now + LONGEST_CLOSURE + self.size(Share::Whole) * self.interval;
        if bucket.0 > latest {
            now
        } else {
            bucket.0.max(now)
        }
    }
}

impl Bucket {
    /// Reads a bucket from the number of [`Bucket::to_stored`].
    #[must_use]
    pub fn from_stored(number: i64) -> Self {
        Self(number)
    }

    /// Returns the number to store.
    #[must_use]
    pub fn to_stored(self) -> i64 {
        self.0
    }

    /// Returns the Unix millisecond from which the bucket is full, so that its
    /// row may vanish.
    #[must_use]
    pub fn full_at_ms(self) -> i64 {
        self.0.div_euclid(1000) + i64::from(self.0.rem_euclid(1000) != 0)
    }
}

const MICROS: i64 = 1_000_000;
/// Let's Encrypt's longest limit is of 7 days.
const LONGEST_CLOSURE: i64 = 8 * 24 * 3600 * MICROS;

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_790_000_000;
    const NOW_MS: i64 = NOW * 1000;

    fn orders() -> Limit {
        Limit::new(300, 3 * 3600).unwrap()
    }

    #[test]
    fn tokens_come_back_one_by_one() {
        let (limit, mut bucket) = (orders(), Bucket::default());
        assert_eq!(limit.take(&mut bucket, NOW_MS, 300, Share::Whole), Ok(()));
        let retry = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
        assert_eq!(retry, Err(RetryAt(NOW + 36)));
        assert_eq!(
            limit.take(&mut bucket, NOW_MS + 36_000, 1, Share::Whole),
            Ok(())
        );
        assert_eq!(limit.available(bucket, NOW_MS + 108_000, Share::Whole), 2);
        limit.give_back(&mut bucket, 1);
        assert_eq!(limit.available(bucket, NOW_MS + 108_000, Share::Whole), 3);
        assert_eq!(Limit::new(0, 1), None);
    }

    #[test]
    fn more_than_there_is_waits_for_the_whole_share() {
        let (limit, mut bucket) = (orders(), Bucket::default());
        limit.take(&mut bucket, NOW_MS, 10, Share::Whole).unwrap();
        let refused = limit.take(&mut bucket, NOW_MS, 1_000, Share::Whole);
        assert_eq!(refused, Err(RetryAt(NOW + 360)));
    }

    #[test]
    fn renewals_leave_a_tenth_for_first_certificates() {
        let (limit, mut bucket) = (orders(), Bucket::default());
        assert_eq!(
            limit.take(&mut bucket, NOW_MS, 270, Share::Unreserved),
            Ok(())
        );
        assert_eq!(
            limit.take(&mut bucket, NOW_MS, 1, Share::Unreserved),
            Err(RetryAt(NOW + 36))
        );
        assert_eq!(limit.take(&mut bucket, NOW_MS, 30, Share::Whole), Ok(()));
        let one = Limit::new(1, 60).unwrap();
        assert_eq!(
            one.take(&mut Bucket::default(), NOW_MS, 1, Share::Unreserved),
            Ok(())
        );
    }

    #[test]
    fn a_429_closes_the_limit_until_then() {
        let (limit, mut bucket) = (orders(), Bucket::default());
        limit.close_until(&mut bucket, NOW_MS, NOW + 600);
        let refused = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
        assert_eq!(refused, Err(RetryAt(NOW + 600)));
        limit.close_until(&mut bucket, NOW_MS, NOW + 60);
        assert_eq!(
            limit.available(bucket, NOW_MS + 600_000, Share::Whole),
            1,
            "the later one"
        );
        limit.close_until(&mut bucket, NOW_MS, i64::MAX);
        let refused = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
        assert_eq!(
            refused,
            Err(RetryAt(NOW + 8 * 86_400)),
            "a senseless Retry-After"
        );
    }

    #[test]
    fn failures_count_beyond_the_limit_without_growing_debt() {
        let (limit, mut bucket) = (Limit::new(5, 3600).unwrap(), Bucket::default());
        for _ in 0..20 {
            limit.charge(&mut bucket, NOW_MS);
        }
        let refused = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
        assert_eq!(refused, Err(RetryAt(NOW + 720)));
        assert_eq!(bucket.full_at_ms(), NOW_MS + 3_600_000);
    }

    #[test]
    fn a_bucket_of_a_clock_a_year_ahead_counts_as_full() {
        let (limit, mut bucket) = (orders(), Bucket::default());
        limit
            .take(&mut bucket, NOW_MS + 365 * 86_400_000, 300, Share::Whole)
            .unwrap();
        assert_eq!(limit.take(&mut bucket, NOW_MS, 300, Share::Whole), Ok(()));
        assert_eq!(Bucket::from_stored(bucket.to_stored()), bucket);
    }
}
