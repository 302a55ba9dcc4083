//! Part 1: what a start costs against the number of hosts, preloaded and dynamic (JIP 2019,
//! table 2; Peschel 2015).

use super::super::rows::{Case, Hosts, Loaded, Measure, Row, Setup};
use super::super::sekisho::Store;
use super::super::table::{BASE, SEKISHO, nginx, sekisho};
use super::part::{GIB, Part};
use crate::fixtures::KeyKind;

pub(super) const PRELOAD: Part = Part {
    id: "preload",
    title: "Start-up and memory against the number of hosts",
    rows: &[
        start("ecdsa-1", KeyKind::Ecdsa, 1, ALL),
        start("ecdsa-2", KeyKind::Ecdsa, 2, ALL),
        start("ecdsa-100", KeyKind::Ecdsa, 100, ALL),
        start("ecdsa-1000", KeyKind::Ecdsa, 1_000, ALL),
        start("ecdsa-10000", KeyKind::Ecdsa, 10_000, ALL),
        start("ecdsa-100000", KeyKind::Ecdsa, 100_000, MOST),
        start("ecdsa-1000000", KeyKind::Ecdsa, 1_000_000, OURS),
        start("rsa-1", KeyKind::Rsa4096, 1, NGINX),
        start("rsa-2", KeyKind::Rsa4096, 2, NGINX),
        start("rsa-100", KeyKind::Rsa4096, 100, NGINX),
        start("rsa-1000", KeyKind::Rsa4096, 1_000, NGINX),
        start("rsa-10000", KeyKind::Rsa4096, 10_000, NGINX),
        start("rsa-100000", KeyKind::Rsa4096, 100_000, NGINX),
    ],
    tests: &[],
    minutes: [90, 2],
    disk: [12 * GIB, GIB],
};

const fn start(id: &'static str, key: KeyKind, hosts: usize, cases: &'static [Case]) -> Row {
    Row {
        id,
        title: "Start-up, from before the fork to the first page",
        key,
        hosts: Hosts::Exactly(hosts),
        measure: Measure::StartUp,
        cases,
        heavy: hosts > 1_000,
        ..BASE
    }
}

const PRELOADED: Case = nginx("nginx", Loaded::All);
const HAPROXY: Case = Case {
    setup: Setup::HaProxy,
    label: "HAProxy",
    ..PRELOADED
};
const NGINX: &[Case] = &[PRELOADED, SEKISHO];
const MOST: &[Case] = &[PRELOADED, HAPROXY, SEKISHO];
const OURS: &[Case] = &[SEKISHO];
const ALL: &[Case] = &[
    PRELOADED,
    Case {
        setup: Setup::Apache,
        label: "Apache",
        ..PRELOADED
    },
    HAPROXY,
    Case {
        setup: Setup::Caddy,
        label: "Caddy",
        ..PRELOADED
    },
    SEKISHO,
    sekisho("sekisho, files", Store::Files, "64MiB"),
];
