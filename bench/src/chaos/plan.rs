//! What is done to stores and servers, and when: from a length and a seed.

use std::fmt;
use std::time::Duration;

use crate::load::SplitMix;

/// A thing that is done, and undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing: all is well.
    Calm,
    /// A store is taken away.
    Take(Store, How),
    /// The server of that number is ended and started again.
    Restart(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Postgres,
    Redis,
}

/// In which way a store is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The server ends in order.
    Stop,
    /// The server stands still: it accepts and answers nothing.
    Pause,
    /// The server is killed.
    Kill,
}

/// A piece of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) action: Action,
    /// For how long the store is gone; the length of a calm phase.
    pub(crate) lasts: Duration,
    /// How long is waited afterwards.
    pub(crate) rests: Duration,
}

/// Calm at both ends; between them each store goes in each way, and each
/// server is restarted once, in an order of the seed's choice.
pub(crate) fn phases(whole: Duration, random: &mut SplitMix) -> Vec<Phase> {
    let mut outages = outages();
    shuffle(&mut outages, random);
    let mut servers: Vec<_> = (0..SERVERS).map(Action::Restart).collect();
    shuffle(&mut servers, random);
    // A restarted server remembers nothing: it reads what outages left behind.
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

impl SplitMix {
    /// A number below this one, which is not 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small numbers"
    )]
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.unit() * end as f64) as usize).min(end - 1)
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

/// How many servers share the stores.
pub(crate) const SERVERS: usize = 3;

/// Shares of the whole run; all phases together make 1.
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
