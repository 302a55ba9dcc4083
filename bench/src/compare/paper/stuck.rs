//! Part 4: hosts that are cached while the store hangs.

use super::super::rows::{Hosts, Measure, Row};
use super::super::scripts::HOOK_STUCK;
use super::super::stores::{STUCK_POSTGRES, STUCK_REDIS};
use super::super::table::NGINX_VARIABLE;
use super::handshakes::{LUA_CACHED, NEXT_CACHED};
use super::part::{GIB, Part};

pub(super) const STUCK: Part = Part {
    id: "stuck",
    title: "Cached hosts while the store, or the hook, hangs",
    rows: &[
        Row {
            cases: &[STUCK_REDIS.cases[0], STUCK_REDIS.cases[1], LUA_CACHED],
            ..STUCK_REDIS
        },
        STUCK_POSTGRES,
        HOOK_STUCK,
        STUCK_FILES,
    ],
    tests: &[],
    minutes: [15, 1],
    disk: [2 * GIB, GIB / 2],
    memory: [2 * GIB, GIB],
};

/// sekisho has no case here: it reads nothing but regular files.
const STUCK_FILES: Row = Row {
    id: "stuck-files",
    title: "Hosts of nginx by variable while the file system hangs: pipes in place of files",
    hosts: Hosts::Exactly(1_000),
    // nginx 1.22 takes almost 1 ms to read a certificate and its key.
    measure: Measure::Stuck {
        seconds: 4,
        rate: 500,
    },
    cases: const { &[NGINX_VARIABLE, NEXT_CACHED] },
    goals: &[],
    ..STUCK_REDIS
};
