//! Part 6: a month in production (JIP 2019, figures 6 to 9), accelerated.

use super::super::measure::FAILED;
use super::super::rows::{Hosts, Loaded, Measure, Row};
use super::super::table::{BASE, SEKISHO, absolute, nginx};
use super::part::{GIB, Part};

pub(super) const MONTH: Part = Part {
    id: "month",
    title: "A month in which hosts are added and certificates renewed",
    rows: &[
        Row {
            id: "month-20000",
            hosts: Hosts::Either(10_000, 500),
            measure: Measure::Month { times: 2 },
            ..ROW
        },
        Row {
            id: "month-1000000",
            hosts: Hosts::Exactly(200_000),
            measure: Measure::Month { times: 5 },
            heavy: true,
            ..ROW
        },
    ],
    tests: &[],
    minutes: [50, 1],
    disk: [14 * GIB, GIB / 2],
    memory: [8 * GIB, GIB],
};

const ROW: Row = Row {
    title: "An accelerated month: visitors by day and night, certificates added and renewed",
    cases: &[
        nginx("nginx, a reload each quarter of an hour", Loaded::All),
        SEKISHO,
    ],
    goals: &[absolute(FAILED, 0.0, None)],
    ..BASE
};
