use super::{DAY, HOUR, MINUTE, Seed, Validity};

/// Reason why an attempt gave no certificate, as far as the next one depends
/// on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The CA, or a rule of this server, refused the names: a failed validation,
    /// CAA, a policy. Somebody must change something.
    Names,
    /// The CA could not be reached or failed itself. The names bear no blame.
    Authority,
    /// A quota or the CA's `Retry-After` allows nothing before this Unix second.
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
/// again at the deadline at the latest. The first row is Let's Encrypt's advice
/// (integration guide, "Retrying Failures"), the second is near Caddy's pauses;
/// certbot tries every 12 hours. Let's Encrypt blocks a name for an hour after
/// five failures in an hour, and pauses it after 1,152 if there is more than one a
/// day: no row comes near either.
///
/// [`Failure::Authority`] suspends nothing and raises `attempts` to 4 at most: the
/// first row as it is, the others with pauses of at most an hour. What a CA's
/// outage of a day holds up comes back spread over the day after it.
/// [`Failure::Closed`] counts as no attempt.
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
        Failure::Closed { .. } => attempts,
    };
    let pause = match failure {
        Failure::Closed { until } => until.saturating_sub(now).max(MINUTE),
        _ if deadline.is_some() => step(&CALM, counted, DAY),
        Failure::Authority => step(&URGENT, counted, HOUR).min(HOUR),
        Failure::Names if valid.is_none() && counted >= SUSPENDED => DAY,
        Failure::Names => step(&URGENT, counted, 6 * HOUR),
    };
    let due = now
        .saturating_add(pause)
        .saturating_add(seed.below(now, pause / 8));
    let latest = deadline.filter(|_| !matches!(failure, Failure::Closed { .. }));
    let due = latest.map_or(due, |deadline| due.min(deadline.max(now + MINUTE)));
    Next {
        due,
        attempts: counted,
        suspended: failure == Failure::Names && is_suspended(counted, now, due),
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

const CALM: [i64; 3] = [MINUTE, 10 * MINUTE, 100 * MINUTE];
const URGENT: [i64; 5] = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR];
/// Failures after which a lineage is suspended: 28 hours after the first one
/// without a certificate, a week with one.
const SUSPENDED: u32 = 10;
