//! Load: lanes of clients, each of which makes one visit after the other.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;

use super::field::{Field, Names};
use sekisho_bench::load::SplitMix;

/// Group of hosts that a lane of clients visits. A lane that waits for an
/// unavailable store delays no other lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    Steady,
    Changing,
    /// Hosts that are seldom cached, and some that do not exist.
    Cold,
}

/// Lanes to each server.
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

/// Visits hosts until it is dropped, with a rest between two visits.
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
