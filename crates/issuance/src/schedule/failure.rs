use super::{DAY, HOUR, MINUTE, Seed, Validity, renewal_turn};

/// Reason why an attempt gave no certificate, as far as the next one depends
/// on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The CA, or a rule of this server, refused the names: a failed validation,
    /// CAA, a policy. Somebody must change something.
    Names,
    /// The CA failed at this order alone. The names bear no blame.
    Authority,
    /// No CA is asked before this Unix second: each has failed, or has asked for the
    /// pause (`Retry-After`).
    PassedOver {
        /// Unix second at which it is worth trying.
        until: i64,
    },
    /// A quota allows nothing before this Unix second.
    Closed {
        /// Unix second at which it is worth trying.
        until: i64,
    },
}

/// State of a lineage after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// Unix second of the next attempt, not before.
    pub due: i64,
    /// Failed attempts since the last success, for the next call.
    pub attempts: u32,
    /// True if the lineage is only tried once a day, after many failures.
    pub suspended: bool,
}

/// Returns when to try again after a failed attempt. `attempts` are the failures
/// before it; `validity` is that of the certificate in use, if there is one.
///
/// | failures | 1 | 2 | 3 | 4 | 5 | 6 to 9 | from 10 |
/// | --- | --- | --- | --- | --- | --- | --- | --- |
/// | renewal before its deadline | 1 min | 10 min | 100 min | 1 day | 1 day | 1 day | 1 day, suspended |
/// | renewal after it | 1 min | 5 min | 15 min | 1 h | 3 h | 6 h | 6 h |
/// | no valid certificate | 1 min | 5 min | 15 min | 1 h | 3 h | 6 h | 1 day, suspended |
///
/// Up to an eighth is added as jitter. A renewal before its deadline is tried
/// again at the deadline at the latest. No pause is longer than 1/30 of the lifetime
/// while the certificate is valid, and after a failure of the CA also later: 3 days of
/// 90, 5 hours of 160, 10 s of 5 minutes, and at least 5 s. Before the deadline, the CA's
/// failures have 1/6: 27 hours of 160. The first row is Let's Encrypt's advice
/// (integration guide, "Retrying Failures"), the second is near Caddy's pauses;
/// certbot tries every 12 hours. Let's Encrypt blocks a name for an hour after
/// five failures in an hour, and pauses it after 1,152 if there is more than one a
/// day: no row comes near either.
///
/// [`Failure::Authority`] suspends nothing and raises `attempts` to 4 at most: the
/// first row as it is, the others with pauses of at most an hour.
/// [`Failure::PassedOver`] raises `attempts` to 1 at most, [`Failure::Closed`] to none:
/// they say themselves when to try again, at least 5 s and at least a minute later.
#[must_use]
pub fn after_failure(
    now: i64,
    failure: Failure,
    attempts: u32,
    validity: Option<Validity>,
    seed: Seed,
) -> Next {
    let valid = validity.filter(|validity| now <= validity.not_after);
    let deadline = valid
        .map(Validity::deadline)
        .filter(|deadline| now < *deadline);
    let counted = match failure {
        Failure::Names => attempts.saturating_add(1),
        Failure::Authority => attempts.max(attempts.saturating_add(1).min(4)),
        // It is listed as failing, and the next pause is no longer for it.
        Failure::PassedOver { .. } => attempts.max(1),
        Failure::Closed { .. } => attempts,
    };
    let share = validity.map(|validity| (validity.lifetime() / SHARE).max(SHORTEST));
    let calm_share = deadline.and(share.map(|share| share * CALM_SHARES));
    let longest = match failure {
        Failure::Names => share.filter(|_| valid.is_some()),
        Failure::Authority => calm_share.or(share),
        Failure::PassedOver { .. } | Failure::Closed { .. } => None,
    };
    let pause = match failure {
        Failure::Closed { until } => until.saturating_sub(now).max(MINUTE),
        Failure::PassedOver { until } => until.saturating_sub(now).max(SHORTEST),
        _ if deadline.is_some() => step(&CALM, counted, DAY),
        Failure::Authority => step(&URGENT, counted, HOUR).min(HOUR),
        Failure::Names if valid.is_none() && counted >= SUSPENDED => DAY,
        Failure::Names => step(&URGENT, counted, 6 * HOUR),
    };
    let pause = pause.saturating_add(seed.below(now, pause / 8));
    let pause = longest.map_or(pause, |longest| pause.min(longest));
    let due = now.saturating_add(pause);
    let due = match (failure, deadline) {
        (Failure::Names | Failure::Authority, Some(deadline)) => {
            due.min(deadline.max(now + pause.min(MINUTE)))
        }
        _ => due,
    };
    Next {
        due,
        attempts: counted,
        suspended: failure == Failure::Names && is_suspended(counted, now, due),
    }
}

/// Returns the failure of a lineage that no CA is asked for before `until`, since each has
/// failed. `validity` is that of the certificate in use, if one is there and may be used on.
///
/// First certificates and late renewals are due when a CA is asked again. A renewal before
/// its deadline can wait: renewals that an outage of a day holds up come back over the day
/// after it. All at once, they would crowd the hours of the outage's end, and those a renewal
/// later, for years.
#[must_use]
pub fn outage(now: i64, until: i64, validity: Option<Validity>) -> Failure {
    match validity {
        Some(validity) if now < validity.deadline() => Failure::Authority,
        _ => Failure::PassedOver { until },
    }
}

/// Returns the turn of a lineage that failed for its names, and is due then.
///
/// From the third failure in a row on, it stands behind the renewals that are due by
/// then: theirs is their deadline, a sixth of the lifetime later. Hosts that have left
/// are tried each day for ever, and would else take the first places of each day.
#[must_use]
pub fn failed_turn(due: i64, attempts: u32, validity: Option<Validity>) -> i64 {
    match attempts {
        0..GIVES_WAY => validity.map_or(due, |validity| renewal_turn(validity).max(due)),
        _ => due.saturating_add(BEHIND),
    }
}

/// Returns the turn of a lineage after a failed attempt, as [`after_failure`] has made it
/// `next`. `before` is its turn up to now.
///
/// From the third failure in a row on it keeps its turn, unless its names are to blame once
/// more: names that gave way ([`failed_turn`]) would else come first after each outage of
/// the CA.
#[must_use]
pub fn turn_after(failure: Failure, before: i64, next: Next, validity: Option<Validity>) -> i64 {
    use Failure::{Authority, Closed, Names, PassedOver};
    match (failure, validity) {
        (Names, _) => failed_turn(next.due, next.attempts, validity),
        (Authority | PassedOver { .. } | Closed { .. }, _) if next.attempts >= GIVES_WAY => before,
        (Authority | PassedOver { .. } | Closed { .. }, Some(validity)) => renewal_turn(validity),
        // A first certificate waits behind those of others.
        (Authority, None) => next.due,
        // Nothing was tried: it keeps its place among the names of its tenant.
        (PassedOver { .. } | Closed { .. }, None) => before,
    }
}

/// Tells whether a lineage is suspended, by what is kept of it: its failures in a
/// row, the time of the last one, and when it is due.
///
/// A renewal whose deadline comes within a day is not: it is tried then.
#[must_use]
pub fn is_suspended(attempts: u32, failed_at: i64, due: i64) -> bool {
    attempts >= SUSPENDED && due.saturating_sub(failed_at) >= DAY
}

/// Returns the pause after the n-th failure, counted from 1.
fn step(pauses: &[i64], attempts: u32, later: i64) -> i64 {
    let index = usize::try_from(attempts).unwrap_or(usize::MAX);
    let pause = pauses.get(index.saturating_sub(1));
    pause.copied().unwrap_or(later)
}

/// Part of the lifetime that a pause takes at most: a sixth is left at the deadline, in
/// which five attempts then fit.
const SHARE: i64 = 30;
/// As many of these shares may pass before the deadline if the CA failed. A sixth of the
/// lifetime lies between a renewal's time and its deadline, a third for short lifetimes.
const CALM_SHARES: i64 = 5;
/// The shortest pause, in seconds.
const SHORTEST: i64 = 5;
/// Failures in a row from which a lineage gives way to those that may succeed.
const GIVES_WAY: u32 = 3;
/// Seconds between a renewal's time and its deadline, for certificates of 90 days.
const BEHIND: i64 = 15 * DAY;
const CALM: [i64; 3] = [MINUTE, 10 * MINUTE, 100 * MINUTE];
const URGENT: [i64; 5] = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR];
/// Failures after which a lineage is suspended: 28 hours after the first one
/// without a certificate, a week with one.
const SUSPENDED: u32 = 10;
