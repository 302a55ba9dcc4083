//! Part 4: hosts that are cached while the store hangs.

use super::super::scripts::HOOK_STUCK;
use super::super::stores::{STUCK_POSTGRES, STUCK_REDIS};
use super::part::{GIB, Part};

pub(super) const STUCK: Part = Part {
    id: "stuck",
    title: "Cached hosts while the store, or the hook, hangs",
    rows: &[STUCK_REDIS, STUCK_POSTGRES, HOOK_STUCK],
    tests: &[],
    minutes: [15, 2],
    disk: [2 * GIB, GIB],
};
