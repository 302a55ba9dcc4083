//! Part 1: what a start and a reload cost against the number of hosts, preloaded and dynamic
//! (JIP 2019, table 2; Peschel 2015).

use super::super::rows::{Asked, Case, Hosts, Loaded, Measure, Row, Setup};
use super::super::sekisho::{Copies, Store};
use super::super::table::{BASE, SEKISHO, nginx, sekisho};
use super::handshakes;
use super::part::{GIB, Part};
use crate::fixtures::KeyKind;

pub(super) const PRELOAD: Part = Part {
    id: "preload",
    title: "Start-up, reload and memory against the number of hosts",
    rows: &[
        start("ecdsa-1", KeyKind::Ecdsa, 1, ALL),
        start("ecdsa-2", KeyKind::Ecdsa, 2, ALL),
        start("ecdsa-100", KeyKind::Ecdsa, 100, ALL),
        start("ecdsa-1000", KeyKind::Ecdsa, 1_000, ALL_STORES),
        start("ecdsa-10000", KeyKind::Ecdsa, 10_000, ALL),
        start("ecdsa-100000", KeyKind::Ecdsa, 100_000, MOST_STORES),
        start("ecdsa-1000000", KeyKind::Ecdsa, 1_000_000, OURS),
        start("rsa-1", KeyKind::Rsa4096, 1, NGINX),
        start("rsa-2", KeyKind::Rsa4096, 2, NGINX),
        start("rsa-100", KeyKind::Rsa4096, 100, NGINX),
        start("rsa-1000", KeyKind::Rsa4096, 1_000, NGINX),
        start("rsa-10000", KeyKind::Rsa4096, 10_000, NGINX),
        start("rsa-100000", KeyKind::Rsa4096, 100_000, NGINX),
        workers("workers-1000", 1_000),
        workers("workers-100000", 100_000),
        reload("reload-1000", 1_000, PEERS),
        reload("reload-10000", 10_000, PEERS),
        reload("reload-100000", 100_000, MOST),
        Row {
            title: "From a new host's record to its first page",
            measure: Measure::FirstPage,
            ..reload("first-page-10000", 10_000, PEERS)
        },
        siege("siege-1", 1, false),
        siege("siege-2", 2, true),
        siege("siege-100", 100, true),
        siege("siege-1000", 1_000, false),
        siege("siege-10000", 10_000, true),
    ],
    tests: &[],
    minutes: [70, 1],
    disk: [12 * GIB, GIB / 2],
    memory: [12 * GIB, GIB],
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
        most_rounds: most_rounds(hosts),
        ..BASE
    }
}

/// The workers of the paper's table, with its keys.
const fn workers(id: &'static str, hosts: usize) -> Row {
    Row {
        title: "Start-up with 24 workers",
        workers: 24,
        ..start(id, KeyKind::Rsa4096, hosts, NGINX)
    }
}

const fn reload(id: &'static str, hosts: usize, cases: &'static [Case]) -> Row {
    Row {
        title: "Reload, from the signal until the changed configuration is served",
        measure: Measure::Reload,
        ..start(id, KeyKind::Ecdsa, hosts, cases)
    }
}

/// The clients and keys of Peschel's third column.
const fn siege(id: &'static str, hosts: usize, heavy: bool) -> Row {
    Row {
        title: "5,000 pages by 100 clients of 50 over all hosts, by siege",
        measure: Measure::Siege {
            clients: 100,
            each: 50,
        },
        heavy,
        most_rounds: 3,
        ..start(id, KeyKind::Rsa4096, hosts, SIEGED)
    }
}

/// Peers take 1 to 2 ms for each host at each start and reload.
const fn most_rounds(hosts: usize) -> usize {
    match hosts {
        10_000 => 3,
        100_000 => 1,
        _ => usize::MAX,
    }
}

const PRELOADED: Case = nginx("nginx", Loaded::All);
const HAPROXY: Case = Case {
    setup: Setup::HaProxy,
    label: "HAProxy",
    ..PRELOADED
};
const APACHE: Case = Case {
    setup: Setup::Apache,
    label: "Apache",
    ..PRELOADED
};
const CADDY: Case = Case {
    setup: Setup::Caddy,
    label: "Caddy",
    ..PRELOADED
};
const NEXT: Case = Case {
    label: "nginx 1.28",
    ..handshakes::NEXT
};
const FILES: Case = sekisho("sekisho, files", Store::Files, "64MiB");
const REDIS: Case = sekisho("sekisho, Redis", Store::Redis(Copies::None), "64MiB");
const POSTGRES: Case = sekisho(
    "sekisho, PostgreSQL",
    Store::Postgres(Copies::None),
    "64MiB",
);
const NGINX: &[Case] = &[PRELOADED, SEKISHO];
const MOST: &[Case] = &[PRELOADED, HAPROXY, SEKISHO];
const MOST_STORES: &[Case] = &[PRELOADED, HAPROXY, SEKISHO, REDIS, POSTGRES, NEXT];
const OURS: &[Case] = &[SEKISHO];
const PEERS: &[Case] = &[PRELOADED, APACHE, HAPROXY, CADDY, SEKISHO, NEXT];
const ALL: &[Case] = &[PRELOADED, APACHE, HAPROXY, CADDY, SEKISHO, FILES, NEXT];
const ALL_STORES: &[Case] = &[
    PRELOADED, APACHE, HAPROXY, CADDY, SEKISHO, FILES, REDIS, POSTGRES, NEXT,
];
const SIEGED: &[Case] = &[
    Case {
        asked: Asked::All,
        ..PRELOADED
    },
    Case {
        asked: Asked::All,
        ..SEKISHO
    },
];
