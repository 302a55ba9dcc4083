//! Draws servers at random, and compares their load.

/// Facts of a server that a choice compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::upstream) struct Load {
    /// Requests that were sent to it and have not ended, waiting ones included.
    pub(in crate::upstream) in_flight: u32,
    pub(in crate::upstream) weight: u16,
}

impl Load {
    /// Returns whether one request more weighs less on this server than on `other`.
    pub(in crate::upstream) fn is_below(self, other: Self) -> bool {
        let with_one = |load: Self| u64::from(load.in_flight) + 1;
        with_one(self) * u64::from(other.weight) < with_one(other) * u64::from(self.weight)
    }
}

/// Draws two different servers at random by weight; one if there is only one.
/// `servers` are their indices and weights, `random` is any number.
///
/// The less loaded of two is nearly as good a choice as the least loaded of all, and
/// workers that choose at once do not all choose the same one.
pub(in crate::upstream) fn two(
    servers: impl Iterator<Item = (usize, u16)> + Clone,
    random: u64,
) -> Option<(usize, Option<usize>)> {
    let (high, low) = (random >> 32, random & 0xffff_ffff);
    let first = one(servers.clone(), high)?;
    let others = servers.filter(|(index, _)| *index != first);
    Some((first, one(others, low)))
}

/// Draws one server by weight.
fn one(servers: impl Iterator<Item = (usize, u16)> + Clone, random: u64) -> Option<usize> {
    let total: u64 = servers.clone().map(|(_, weight)| u64::from(weight)).sum();
    let mut left = random.checked_rem(total)?;
    for (index, weight) in servers {
        match left.checked_sub(weight.into()) {
            Some(rest) => left = rest,
            None => return Some(index),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream::servers::choice::rendezvous::mix;

    const DRAWS: u64 = 20_000;

    /// Draws from these weights; returns how often each server came first.
    fn drawn(weights: &[u16]) -> Vec<u64> {
        let mut drawn = vec![0; weights.len()];
        let servers = weights.iter().copied().enumerate();
        for draw in 0..DRAWS {
            let (first, second) = two(servers.clone(), mix(draw)).unwrap();
            assert_ne!(Some(first), second);
            assert_eq!(second.is_some(), weights.len() > 1);
            drawn[first] += 1;
        }
        drawn
    }

    fn is_near(count: u64, parts: u64, all: u64) -> bool {
        count.abs_diff(DRAWS * parts / all) < DRAWS / 50
    }

    #[test]
    fn servers_are_drawn_by_weight() {
        let drawn = drawn(&[1, 3, 6]);
        assert!(is_near(drawn[0], 1, 10), "{drawn:?}");
        assert!(is_near(drawn[1], 3, 10), "{drawn:?}");
        assert!(is_near(drawn[2], 6, 10), "{drawn:?}");
    }

    #[test]
    fn one_server_is_drawn_alone_and_none_from_none() {
        assert_eq!(drawn(&[5]), [DRAWS]);
        assert_eq!(two(std::iter::empty(), 7), None);
    }

    #[test]
    fn loads_are_compared_by_weight() {
        let load = |in_flight, weight| Load { in_flight, weight };
        assert!(load(1, 1).is_below(load(2, 1)));
        assert!(!load(2, 1).is_below(load(2, 1)));
        assert!(load(4, 3).is_below(load(1, 1)));
        assert!(!load(5, 3).is_below(load(1, 1)));
        assert!(load(u32::MAX - 1, 1000).is_below(load(u32::MAX, 999)));
    }
}
