//! Plan of outages and restarts, which follows from a length and a seed.

use std::fmt;
use std::time::Duration;

use sekisho_bench::load::SplitMix;

/// Action of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// No fault.
    Calm,
    /// A store is unavailable.
    Take(Store, How),
    /// The server of this number is ended and started again.
    Restart(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Postgres,
    Redis,
}

/// Way in which a store becomes unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The store shuts down in order.
    Stop,
    /// The store is stopped by a signal: its sockets accept, but answer
    /// nothing.
    Pause,
    /// The store is killed.
    Kill,
}

/// Phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) action: Action,
    /// Length of the outage, or of a calm phase.
    pub(crate) lasts: Duration,
    /// Pause after the action.
    pub(crate) rests: Duration,
}

/// Returns the phases: calm at both ends, and between them all faults. Each
/// store fails in each way, and each server restarts once, in an order that
/// depends on the seed.
pub(crate) fn phases(whole: Duration, random: &mut SplitMix) -> Vec<Phase> {
    let mut outages = outages();
    shuffle(&mut outages, random);
    let mut servers: Vec<_> = (0..SERVERS).map(Action::Restart).collect();
    shuffle(&mut servers, random);
    // Restarts come between outages: a restarted server has an empty cache, and
    // reads what the outages left in the stores.
    let between = outages
        .chunks(outages.len() / SERVERS)
        .zip(servers)
        .flat_map(|(outages, restart)| outages.iter().copied().chain([restart]));
    let calm = std::iter::once(Action::Calm);
    let all = calm.clone().chain(between).chain(calm);
    all.map(|action| Phase::of(action, whole)).collect()
}

impl Phase {
    fn of(action: Action, whole: Duration) -> Self {
        let (lasts, rests) = match action {
            Action::Calm => (CALM, 0.0),
            Action::Take(..) => (OUTAGE, HEALING),
            Action::Restart(_) => (0.0, RESTART),
        };
        Self {
            action,
            lasts: whole.mul_f64(lasts),
            rests: whole.mul_f64(rests),
        }
    }
}

fn outages() -> Vec<Action> {
    let ways = [How::Stop, How::Pause, How::Kill];
    let of = |store| ways.map(|how| Action::Take(store, how));
    [of(Store::Postgres), of(Store::Redis)].concat()
}

fn shuffle<T>(items: &mut [T], random: &mut SplitMix) {
    for index in (1..items.len()).rev() {
        items.swap(index, random.below(index + 1));
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Calm => f.write_str("all is well"),
            Self::Take(store, how) => write!(f, "{store:?}: {how:?}"),
            Self::Restart(server) => write!(f, "server {server}: restart"),
        }
    }
}

/// Number of servers that share the stores.
pub(crate) const SERVERS: usize = 3;

/// Shares of the whole run. Those of all phases add up to 1.
const CALM: f64 = 0.065;
const OUTAGE: f64 = 0.08;
const HEALING: f64 = 0.04;
const RESTART: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_goes_in_each_way_and_each_server_once() {
        let whole = Duration::from_secs(600);
        let plan = phases(whole, &mut SplitMix(7));
        for outage in outages() {
            assert_eq!(plan.iter().filter(|one| one.action == outage).count(), 1);
        }
        for server in 0..SERVERS {
            let restart = Action::Restart(server);
            assert_eq!(plan.iter().filter(|one| one.action == restart).count(), 1);
        }
        let sum: Duration = plan.iter().map(|one| one.lasts + one.rests).sum();
        assert_eq!(sum.as_secs_f64().round(), 600.0);
        assert_eq!(plan, phases(whole, &mut SplitMix(7)));
        assert_ne!(plan, phases(whole, &mut SplitMix(8)));
    }
}
