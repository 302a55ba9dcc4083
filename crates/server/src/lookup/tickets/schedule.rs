//! Schedule of ticket keys: when they are made, used and dropped.

use super::ring::Timed;

/// Returns the starts of the keys that are missing. Periods are aligned to the epoch:
/// servers agree without communication. A key is published one period before it seals: by
/// then each server has it.
pub(super) fn missing(now: i64, keys: &[Timed]) -> Vec<i64> {
    let current = period_of(now);
    let needed = [current, current + PERIOD].into_iter();
    needed
        .filter(|start| keys.iter().all(|key| key.from != *start))
        .collect()
}

/// Returns when keys are missing next, in seconds since the Unix epoch.
pub(super) fn next(now: i64, keys: &[Timed]) -> i64 {
    match missing(now, keys).is_empty() {
        true => period_of(now) + PERIOD,
        false => now,
    }
}

/// Returns the start of the current period, in seconds since the Unix epoch.
pub(super) fn period_of(now: i64) -> i64 {
    now - now.rem_euclid(PERIOD)
}

/// Returns whether a key that seals from `from` on may open tickets, now or
/// later.
pub(super) fn is_alive(now: i64, from: i64) -> bool {
    now < from + 2 * PERIOD
}

/// Returns the index of the key that seals now: the latest that has begun. A
/// server with a late clock may have none; then it is the earliest.
pub(super) fn sealing(now: i64, keys: &[Timed]) -> Option<usize> {
    let begun = keys
        .iter()
        .enumerate()
        .filter(|(_, key)| key.from <= now)
        .max_by_key(|(_, key)| key.from);
    let earliest = || keys.iter().enumerate().min_by_key(|(_, key)| key.from);
    begun.or_else(earliest).map(|(index, _)| index)
}

/// Seconds for which a key seals. A stolen key opens recorded TLS 1.2 sessions
/// of two periods.
pub const PERIOD: i64 = 12 * 3600;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_made_one_period_ahead() {
        const P: i64 = PERIOD;
        for (now, starts, made, at) in [
            (0, vec![], vec![0, P], 0),
            (P - 1, vec![], vec![0, P], P - 1),
            (P, vec![0, P], vec![2 * P], P),
            (0, vec![0, P], vec![], P),
            (P - 1, vec![0, P], vec![], P),
            (10 * P + 5, vec![0, P], vec![10 * P, 11 * P], 10 * P + 5),
            (10 * P + 5, vec![10 * P], vec![11 * P], 10 * P + 5),
            (10 * P + 5, vec![9 * P, 10 * P, 11 * P], vec![], 11 * P),
            (-1, vec![-P, 0], vec![], 0),
        ] {
            let keys: Vec<_> = starts.iter().copied().map(Timed::random).collect();
            assert_eq!(missing(now, &keys), made, "at {now} with {starts:?}");
            assert_eq!(next(now, &keys), at, "at {now} with {starts:?}");
        }
    }

    #[test]
    fn a_key_opens_one_period_longer_than_it_seals() {
        assert!(is_alive(0, PERIOD), "the next");
        assert!(is_alive(2 * PERIOD - 1, 0), "the previous");
        assert!(!is_alive(2 * PERIOD, 0));
    }

    #[test]
    fn the_latest_that_has_begun_seals() {
        let keys = [PERIOD, 0, 2 * PERIOD].map(Timed::random);
        for (now, index) in [
            (0, 1),
            (PERIOD - 1, 1),
            (PERIOD, 0),
            (9 * PERIOD, 2),
            (-5, 1),
        ] {
            assert_eq!(sealing(now, &keys), Some(index), "at {now}");
        }
        assert_eq!(sealing(0, &[]), None);
    }
}
