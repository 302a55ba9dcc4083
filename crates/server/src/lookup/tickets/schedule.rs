//! Schedule of ticket keys: when they are made, used and dropped.

use std::fmt;

use super::ring::{NAME_LEN, SECRET_LEN};
use zeroize::Zeroizing;

/// Ticket key and the start of its period.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Timed {
    /// When the key begins to seal, in seconds since the Unix epoch. It seals
    /// for one period, and opens for one more.
    pub(super) from: i64,
    pub(super) name: [u8; NAME_LEN],
    pub(super) secret: Zeroizing<[u8; SECRET_LEN]>,
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timed(from {})", self.from)
    }
}

/// Step that the schedule asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing before this time, in seconds since the Unix epoch.
    Wait(i64),
    /// Make keys with these starts.
    Make(Vec<i64>),
}

/// Returns the step that is due. Periods are aligned to the epoch: servers
/// agree without communication. A key is published one period before it seals:
/// by then each server has it.
pub(super) fn schedule(now: i64, starts: &[i64]) -> Step {
    let current = period_of(now);
    let missing: Vec<i64> = [current, current + PERIOD]
        .into_iter()
        .filter(|start| !starts.contains(start))
        .collect();
    if missing.is_empty() {
        Step::Wait(current + PERIOD)
    } else {
        Step::Make(missing)
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
        for (now, starts, action) in [
            (0, vec![], Step::Make(vec![0, P])),
            (P - 1, vec![], Step::Make(vec![0, P])),
            (P, vec![0, P], Step::Make(vec![2 * P])),
            (0, vec![0, P], Step::Wait(P)),
            (P - 1, vec![0, P], Step::Wait(P)),
            (10 * P + 5, vec![0, P], Step::Make(vec![10 * P, 11 * P])),
            (10 * P + 5, vec![10 * P], Step::Make(vec![11 * P])),
            (10 * P + 5, vec![9 * P, 10 * P, 11 * P], Step::Wait(11 * P)),
            (-1, vec![-P, 0], Step::Wait(0)),
        ] {
            assert_eq!(schedule(now, &starts), action, "at {now} with {starts:?}");
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
        let keys = [PERIOD, 0, 2 * PERIOD].map(|from| Timed {
            from,
            name: [0; NAME_LEN],
            secret: Zeroizing::new([0; SECRET_LEN]),
        });
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
