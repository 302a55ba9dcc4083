//! Clients that come one after the other.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::field::{Field, Names};
use crate::load::SplitMix;

/// Whom a lane of clients visits. What waits for a store that is away holds up
/// its own lane alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Steady,
    Changing,
    /// Hosts that are seldom cached, and some that nobody has.
    Cold,
}

/// The lanes to each server.
pub(crate) const LANES: [Lane; 8] = [
    Lane::Steady,
    Lane::Steady,
    Lane::Steady,
    Lane::Steady,
    Lane::Changing,
    Lane::Changing,
    Lane::Changing,
    Lane::Cold,
];

/// Visits for ever, resting between two visits.
pub(crate) async fn visit(
    field: Rc<Field>,
    server: usize,
    lane: Lane,
    rest: Duration,
    mut random: SplitMix,
) {
    loop {
        let host = pick(&field.names.borrow(), lane, &mut random);
        field.visit(server, &host).await;
        sleep(rest).await;
    }
}

fn pick(names: &Names, lane: Lane, random: &mut SplitMix) -> String {
    let among = match lane {
        Lane::Steady => &names.steady,
        Lane::Changing => &names.changing,
        Lane::Cold if random.below(5) == 0 => {
            return format!("nobody{}.chaos.test", random.below(1_000_000));
        }
        Lane::Cold => &names.cold,
    };
    among[random.below(among.len())].clone()
}
