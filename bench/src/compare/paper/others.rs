//! Part 8: what the papers did not measure, from rows of the comparison and from tests of the
//! whole system.

use super::super::browsers::{IDLE_H2, LOADED, PQ};
use super::super::scripts::{HOOK, HOOK_CACHED, HOOK_REDIS};
use super::super::sites::{AUTH, DOWNLOAD, H2_100, PHP, PROXIED_TENANTS, PROXY_100, WEBSOCKET};
use super::part::{GIB, Part, heavy};
use super::test::{BENCH, SYSTEM, Test};

pub(super) const OTHERS: Part = Part {
    id: "others",
    title: "What the papers did not measure",
    rows: &[
        PROXY_100,
        heavy(&PROXIED_TENANTS),
        H2_100,
        DOWNLOAD,
        heavy(&WEBSOCKET),
        PHP,
        AUTH,
        heavy(&IDLE_H2),
        PQ,
        heavy(&LOADED),
        heavy(&HOOK),
        heavy(&HOOK_CACHED),
        heavy(&HOOK_REDIS),
    ],
    tests: &[
        Test {
            id: "first-access",
            program: SYSTEM,
            arguments: &["first-access"],
            // Caddy begins ten orders without a pause, one of them before the others.
            quick: Some(&["--names", "8", "--at-once", "4"]),
        },
        Test {
            id: "renewal-year",
            program: BENCH,
            arguments: &["renewal-year"],
            quick: Some(&["--hosts", "2000"]),
        },
        Test {
            id: "floods",
            program: SYSTEM,
            arguments: &["floods"],
            quick: Some(&["--only", "rapid reset, proxied", "--rounds", "1"]),
        },
        Test {
            id: "upgrade",
            program: SYSTEM,
            arguments: &["upgrade"],
            quick: None,
        },
        Test {
            id: "hook-faults",
            program: SYSTEM,
            arguments: &["hook-faults"],
            quick: None,
        },
        Test {
            id: "chaos",
            program: SYSTEM,
            arguments: &["chaos"],
            quick: None,
        },
        Test {
            id: "scale",
            program: BENCH,
            arguments: &["scale", "--hosts=2000000", "--minutes=3"],
            quick: Some(&[
                "--hosts=20000",
                "--minutes=0.03",
                "--pairs=1",
                "--lookups=100",
                "--announced=8",
                "--unannounced=24",
                // A window of two seconds tells nothing of the p99.
                "--most=50",
            ]),
        },
    ],
    minutes: [84, 1],
    disk: [4 * GIB, GIB / 2],
    memory: [4 * GIB, 2 * GIB],
};
