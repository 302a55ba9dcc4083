//! When a lineage is due, and which of those that are due goes first.
//!
//! Pure functions of Unix seconds, without clock or random numbers: jitter comes
//! from a [`Seed`]. A lineage has two numbers. `due` says when it is tried, not
//! before. `turn` orders those that are due, the smallest first.
//!
//! | certificate | due | latest (`deadline`) |
//! | --- | --- | --- |
//! | with a window from the CA (ARI) | at a point in it | |
//! | 10 days or longer | at 2/3 to 7/9 of the lifetime: days 60 to 70 of 90 | 5/6: day 75 |
//! | shorter | at 1/2 to 2/3: hours 80 to 107 of 160 | 5/6: hour 133 |
//!
//! Let's Encrypt's integration guide advises two thirds, and half below 10 days.
//! The jitter begins there and takes a third of what then remains: certificates
//! imported within an hour are renewed over 10 days, and each renewal spreads
//! them further. Later than the deadline a renewal is urgent ([`after_failure`]).

mod failure;
mod seed;

pub use failure::{Failure, Next, after_failure, failed_turn, is_suspended, outage, turn_after};
pub use seed::Seed;

/// Validity of a certificate, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First second at which it is valid.
    pub not_before: i64,
    /// Last second at which it is valid.
    pub not_after: i64,
}

/// Window in which the CA suggests renewal (`suggestedWindow` of RFC 9773,
/// section 4.2), in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First second of the window.
    pub start: i64,
    /// Second behind the window.
    pub end: i64,
}

impl Validity {
    /// Returns the seconds from the first to the last; 0 if they are reversed.
    #[must_use]
    pub fn lifetime(self) -> i64 {
        self.not_after.saturating_sub(self.not_before).max(0)
    }

    /// Returns the second by which the certificate should be renewed: a sixth of
    /// its lifetime before it expires.
    #[must_use]
    pub fn deadline(self) -> i64 {
        self.not_after - self.lifetime() / 6
    }

    /// Returns the earliest second of a renewal on this server's own schedule.
    fn renewable(self) -> i64 {
        match self.lifetime() {
            short if short < SHORT_LIVED => self.not_before + short / 2,
            long => self.not_before + long / 3 * 2,
        }
    }
}

impl Window {
    /// Tells whether `now` lies in the window. Let's Encrypt exempts an order that
    /// replaces a certificate from its limits only inside the window.
    #[must_use]
    pub fn contains(self, now: i64) -> bool {
        (self.start..self.end).contains(&now)
    }

    /// Returns the second of the window that a lineage has drawn. It stays the
    /// same as long as the CA repeats the window. RFC 9773, section 4.2: a window
    /// that ends before it starts counts as none.
    fn point(self, seed: Seed) -> Option<i64> {
        let length = self.end.checked_sub(self.start)?;
        let salt = self.start.wrapping_add(self.end);
        (length > 0).then(|| self.start + seed.below(salt, length))
    }
}

/// Returns when a certificate is due for renewal: `now` or later.
///
/// Call it when the certificate was stored, by an order or an import, and again
/// if ARI's window changes. A window counts unless its point lies behind the
/// deadline and this server's own schedule is earlier. An expired certificate is
/// due at once.
#[must_use]
pub fn renewal_due(now: i64, validity: Validity, window: Option<Window>, seed: Seed) -> i64 {
    let begin = validity.renewable().max(now);
    let left = validity.not_after.saturating_sub(begin);
    let own = begin.saturating_add(seed.below(validity.not_after, left / 3));
    match window.and_then(|window| window.point(seed)) {
        Some(point) if point <= validity.deadline() => point.max(now),
        Some(point) => point.min(own).max(now),
        None => own,
    }
}

/// Returns the turn of a renewal: the certificate's deadline. A certificate with
/// half of the lifetime is thereby as urgent with half of the time left.
///
/// Without a valid certificate, use [`first_turn`].
#[must_use]
pub fn renewal_turn(validity: Validity) -> i64 {
    validity.deadline()
}

/// Returns the turn of a lineage without a valid certificate: `now`, or an hour
/// behind the tenant's `previous` one that still waits.
///
/// The turns of 50,000 names of one tenant thereby spread over years, and a name
/// of another tenant stands before all but the first. Renewals whose deadline
/// has come stand between them. This is start-time fair queuing; the hour is
/// more than an order takes under any CA's limit, so that turns fall due more
/// slowly than orders are made.
#[must_use]
pub fn first_turn(now: i64, previous: Option<i64>) -> i64 {
    previous.map_or(now, |turn| now.max(turn.saturating_add(HOUR)))
}

/// Returns when a first certificate that a limit has refused is tried again: once the
/// limit opens at `until`, and later by the place of its `turn`, a day at most.
///
/// The turns of a tenant lie an hour apart ([`first_turn`]): the n-th name comes 9 n
/// seconds later. 50,000 names of one tenant then ask the limit once per second, in
/// place of all together each time it opens, and a name of another tenant does so
/// among the first.
#[must_use]
pub fn first_again(now: i64, until: i64, turn: i64) -> i64 {
    let behind = turn.saturating_sub(now) / (HOUR / 9);
    until.saturating_add(behind.clamp(0, DAY))
}

/// Returns how many seconds lie between two questions for a certificate's ARI
/// window, so that a cluster with that many lineages asks at most
/// [`ARI_PER_SECOND`] times per second: 6 hours up to 216,000 lineages, 55.6
/// hours with 2,000,000.
///
/// `retry_after` is the CA's answer in seconds, taken as at least a minute and at
/// most a day (RFC 9773, section 4.3.2).
#[must_use]
pub fn ari_pause(lineages: u64, retry_after: Option<i64>) -> i64 {
    let asked = retry_after.map_or(6 * HOUR, |seconds| seconds.clamp(MINUTE, DAY));
    let pace = lineages.div_ceil(ARI_PER_SECOND);
    asked.max(i64::try_from(pace).unwrap_or(i64::MAX))
}

/// Returns after how many seconds a lineage is looked at again that was due for a
/// question while the cluster asked [`ARI_PER_SECOND`] others: drawn from 1 to 10
/// minutes. With more than 48,000 lineages the time is longer, so that at most 80 per
/// second are looked at if all were due at once.
#[must_use]
pub fn ari_retry(now: i64, lineages: u64, seed: Seed) -> i64 {
    let most = i64::try_from(lineages / (8 * ARI_PER_SECOND)).unwrap_or(i64::MAX);
    MINUTE + seed.below(now, most.max(10 * MINUTE) - MINUTE)
}

/// Returns when an imported certificate is first looked at: it may have been revoked,
/// which its CA's ARI window tells. Imports of one hour spread over 6 hours.
#[must_use]
pub fn first_look(now: i64, seed: Seed) -> i64 {
    now.saturating_add(seed.below(now, ari_pause(0, None)))
}

/// Returns when a CNAME that is awaited is looked for again: 5 minutes later, more or less.
#[must_use]
pub fn cname_look(now: i64, seed: Seed) -> i64 {
    now + 5 * MINUTE - MINUTE / 2 + seed.below(now, MINUTE)
}

/// Questions for ARI windows per second of the whole cluster. Let's Encrypt
/// allows 1,000 per second and address.
pub const ARI_PER_SECOND: u64 = 10;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Lifetimes below it are renewed at half (Let's Encrypt's integration guide).
const SHORT_LIVED: i64 = 10 * DAY;

#[cfg(test)]
mod tests;
