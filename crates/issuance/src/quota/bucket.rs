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

/// State of one bucket, which a catalog can hold as a row that expires at
/// [`Bucket::full_at_ms`]. A row that is missing is a full bucket.
///
/// Servers write it by their own clocks. What was taken and what was closed are
/// apart: what was taken reaches at most a period ahead, and a closure says when it
/// was made. State that a wrong clock has written is told by that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bucket {
    /// Unix microsecond at which what was taken is back (the theoretical arrival
    /// time of GCRA).
    full_at: i64,
    closure: Closure,
}

/// Closure of a bucket; none where both are 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Closure {
    /// Unix microsecond at which it was made.
    at: i64,
    /// Unix microsecond at which the bucket is full again.
    full_at: i64,
}

/// Part of a bucket that an order may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it: first certificates, and renewals past their deadline.
    Whole,
    /// All but a tenth, rounded up, which first certificates have: other renewals. Of
    /// failed validations, attempts of the schedule leave it to a renewal by hand.
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

    /// Returns how many tokens a full bucket has.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Returns the seconds in which an empty bucket becomes full.
    #[must_use]
    pub const fn period(self) -> u32 {
        // The rounding of the interval adds less than a second in all.
        (self.count as i64 * self.interval / MICROS) as u32
    }

    /// Takes `n` tokens.
    ///
    /// `now_ms` is the server's clock. A bucket that is full further ahead than a
    /// period was written by a clock that is ahead; it counts as full, and so does
    /// one that was closed at a time to come: the CA has the last word. A clock that
    /// is ahead by less takes as many tokens as come back meanwhile.
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
            bucket.full_at = full_at + cost;
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
        let full_at = self.taken(*bucket, now);
        bucket.full_at = full_at.max(most.min(full_at + self.interval));
    }

    /// Returns `n` tokens that were taken and not used.
    pub fn give_back(self, bucket: &mut Bucket, n: u32) {
        bucket.full_at = bucket.full_at.saturating_sub(i64::from(n) * self.interval);
    }

    /// Closes the bucket until a Unix second, at most 8 days ahead: at that second
    /// one token is there. For a 429 with `Retry-After`, after which others than
    /// this cluster have taken from the limit.
    pub fn close_until(self, bucket: &mut Bucket, now_ms: i64, until: i64) {
        let now = now_ms.saturating_mul(1000);
        let until = until.saturating_mul(MICROS).min(now + LONGEST_CLOSURE);
        let full_at = until + (self.size(Share::Whole) - 1) * self.interval;
        if full_at > self.closed(*bucket, now) {
            bucket.closure = Closure { at: now, full_at };
        }
    }

    fn size(self, share: Share) -> i64 {
        let count = i64::from(self.count);
        match share {
            Share::Whole => count,
            Share::Unreserved => (count - (count + 9) / 10).max(1),
        }
    }

    /// Returns the microsecond at which the bucket is full: `now` or later.
    fn full_at(self, bucket: Bucket, now: i64) -> i64 {
        self.taken(bucket, now).max(self.closed(bucket, now))
    }

    /// Returns the microsecond at which what was taken is back: `now` or later.
    fn taken(self, bucket: Bucket, now: i64) -> i64 {
        let period = self.size(Share::Whole) * self.interval;
        // Clocks that are right differ, too; but no clock may hold up a limit per
        // second for a minute.
        match bucket.full_at > now + period + period.min(SKEW) {
            true => now,
            false => bucket.full_at.max(now),
        }
    }

    /// Returns the microsecond at which a closure lets the bucket be full; in the past
    /// if none holds.
    fn closed(self, bucket: Bucket, now: i64) -> i64 {
        let period = self.size(Share::Whole) * self.interval;
        let Closure { at, full_at } = bucket.closure;
        match at > now + SKEW || full_at > now + LONGEST_CLOSURE + period {
            true => i64::MIN,
            false => full_at,
        }
    }
}

impl Bucket {
    /// Reads a bucket from the numbers of [`Bucket::to_stored`].
    #[must_use]
    pub fn from_stored([full_at, closed_at, open_at]: [i64; 3]) -> Self {
        let closure = Closure {
            at: closed_at,
            full_at: open_at,
        };
        Self { full_at, closure }
    }

    /// Returns the numbers to store.
    #[must_use]
    pub fn to_stored(self) -> [i64; 3] {
        [self.full_at, self.closure.at, self.closure.full_at]
    }

    /// Returns the Unix millisecond from which the bucket is full, so that its
    /// row may vanish.
    #[must_use]
    pub fn full_at_ms(self) -> i64 {
        let full_at = self.full_at.max(self.closure.full_at);
        full_at.div_euclid(1000) + i64::from(full_at.rem_euclid(1000) != 0)
    }
}

const MICROS: i64 = 1_000_000;
/// Let's Encrypt's longest limit is of 7 days.
const LONGEST_CLOSURE: i64 = 8 * 24 * 3600 * MICROS;
/// Difference between two clocks that are right.
const SKEW: i64 = 60 * MICROS;

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
    fn a_limit_knows_its_count_and_period() {
        for (count, period) in [(1, 1), (300, 10_800), (7, 604_800), (999_983, 31_622_400)] {
            let limit = Limit::new(count, period).unwrap();
            assert_eq!((limit.count(), limit.period()), (count, period));
        }
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
    fn a_clock_that_is_ahead_empties_and_closes_no_bucket() {
        const DAY_MS: i64 = 86_400_000;
        for ahead in [DAY_MS, 365 * DAY_MS] {
            let (limit, mut bucket) = (orders(), Bucket::default());
            limit
                .take(&mut bucket, NOW_MS + ahead, 1, Share::Whole)
                .unwrap();
            assert_eq!(limit.available(bucket, NOW_MS, Share::Whole), 300);
            limit.close_until(&mut bucket, NOW_MS + ahead, NOW + ahead / 1000 + 600);
            assert_eq!(limit.take(&mut bucket, NOW_MS, 300, Share::Whole), Ok(()));
            // A closure by a right clock takes the place of that one.
            limit.close_until(&mut bucket, NOW_MS, NOW + 600);
            let refused = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
            assert_eq!(refused, Err(RetryAt(NOW + 600)));
            assert_eq!(Bucket::from_stored(bucket.to_stored()), bucket);
        }
    }

    #[test]
    fn clocks_that_differ_by_seconds_share_a_bucket() {
        let (limit, mut bucket) = (orders(), Bucket::default());
        let ahead = NOW_MS + 5000;
        limit.take(&mut bucket, ahead, 300, Share::Whole).unwrap();
        let refused = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
        assert_eq!(refused, Err(RetryAt(NOW + 41)));
        limit.close_until(&mut bucket, ahead, NOW + 600);
        let refused = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
        assert_eq!(refused, Err(RetryAt(NOW + 600)));
    }

    #[test]
    fn what_is_given_back_opens_no_closed_bucket() {
        let (limit, mut bucket) = (orders(), Bucket::default());
        limit.take(&mut bucket, NOW_MS, 1, Share::Whole).unwrap();
        limit.close_until(&mut bucket, NOW_MS, NOW + 600);
        limit.give_back(&mut bucket, 1);
        let refused = limit.take(&mut bucket, NOW_MS, 1, Share::Whole);
        assert_eq!(refused, Err(RetryAt(NOW + 600)));
    }
}
