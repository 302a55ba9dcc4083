//! Room for connections that are not in use: how many are kept, and which make room.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use foldhash::quality::RandomState;
use tokio::time::Instant;

use crate::upstream::owned::Owner;

/// Unused connection that may make room for another.
pub(super) struct Unused<'a> {
    pub(super) owner: Owner,
    /// Only one client's requests may use it.
    pub(super) is_clients: bool,
    pub(super) since: Instant,
    /// Unused connections of the owner that are newer.
    pub(super) newer: usize,
    pub(super) is_spare: &'a AtomicBool,
}

/// Marks the connections that make room: those of single clients first, then always the
/// oldest of the owner that has most. No owner thus takes room that another uses more
/// sparingly. A sixteenth at once: the search costs a connection little.
pub(super) fn spare(mut unused: Vec<Unused<'_>>, most: usize) {
    unused.sort_unstable_by_key(|one| Reverse(one.since));
    let mut held = HashMap::<Owner, usize, RandomState>::default();
    for one in &mut unused {
        let held = held.entry(one.owner).or_default();
        one.newer = *held;
        *held += 1;
    }
    unused.sort_unstable_by_key(|one| (Reverse((one.is_clients, one.newer)), one.since));
    for one in unused.iter().take((most / 16).max(1)) {
        one.is_spare.store(true, Relaxed);
    }
}

/// Returns the most unused connections that each of so many workers keeps.
pub(super) fn most_kept(workers: usize) -> usize {
    (MAX_KEPT / workers.max(1)).clamp(LEAST_KEPT, MOST_KEPT)
}

/// Returns the most unused connections to upstreams that so many workers keep together.
#[must_use]
pub fn unused_connections(workers: usize) -> usize {
    workers * most_kept(workers)
}

/// Unused connections of all workers; each takes some 20 KB and a descriptor.
const MAX_KEPT: usize = 8192;
/// Unused connections of one worker, where few or many of them share [`MAX_KEPT`].
const MOST_KEPT: usize = 1024;
const LEAST_KEPT: usize = 16;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Unused connection: its owner, whether it is a client's, and when it was used.
    type Case = (u64, bool, u64);

    /// Returns those of the cases that make room for others.
    fn spared(cases: &[Case], most: usize) -> Vec<Case> {
        let begun = Instant::now();
        let flags: Vec<_> = cases.iter().map(|_| AtomicBool::new(false)).collect();
        let unused = cases.iter().zip(&flags);
        let unused = unused.map(|(&(owner, is_clients, at), is_spare)| Unused {
            owner,
            is_clients,
            since: begun + Duration::from_secs(at),
            newer: 0,
            is_spare,
        });
        spare(unused.collect(), most);
        let marked = cases.iter().zip(&flags);
        let marked = marked.filter(|(_, is_spare)| is_spare.load(Relaxed));
        marked.map(|(case, _)| *case).collect()
    }

    #[test]
    fn the_owner_that_has_most_makes_room_with_its_oldest() {
        let mut cases = vec![(1, false, 0)];
        cases.extend((1..16).map(|at| (2, false, at)));
        assert_eq!(spared(&cases, 16), [(2, false, 1)]);
        assert_eq!(spared(&cases, 32), [(2, false, 1), (2, false, 2)]);
        // Where all have as many, the oldest.
        assert_eq!(spared(&[(1, false, 5), (2, false, 3)], 2), [(2, false, 3)]);
    }

    #[test]
    fn connections_of_single_clients_make_room_first() {
        let mut cases = vec![(1, true, 9)];
        cases.extend((1..16).map(|at| (2, false, at)));
        assert_eq!(spared(&cases, 16), [(1, true, 9)]);
    }

    #[test]
    fn all_workers_together_keep_a_bounded_number() {
        assert_eq!(unused_connections(1), MOST_KEPT);
        for workers in [8, 16, 100, 256] {
            assert!((MAX_KEPT / 2..=MAX_KEPT).contains(&unused_connections(workers)));
        }
        assert_eq!(unused_connections(1024), 1024 * LEAST_KEPT);
    }
}
