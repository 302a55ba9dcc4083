//! Part 3: a handshake with one request for each connection, with certificates that are held
//! and with ones that are read for it.

use std::time::Duration;

use super::super::rows::{Asked, Case, Hosts, Loaded, Measure, Row, Setup};
use super::super::scripts::{HOOKED, HOOKED_REDIS};
use super::super::sekisho::{Copies, Store};
use super::super::table::{BASE, FULL, NGINX, NGINX_VARIABLE, SEKISHO, cold_from, nginx, sekisho};
use super::part::{GIB, Part, heavy};
use super::servers::servers;
use crate::fixtures::KeyKind;
use sekisho_bench::tls::{Group, Version};

pub(super) const HANDSHAKES: Part = Part {
    id: "handshakes",
    title: "A handshake for each request",
    rows: &[
        held("held-ecdsa-tls13", KeyKind::Ecdsa, Version::Tls13),
        heavy(&held("held-ecdsa-tls12", KeyKind::Ecdsa, Version::Tls12)),
        heavy(&held("held-rsa-tls13", KeyKind::Rsa2048, Version::Tls13)),
        heavy(&held("held-rsa-tls12", KeyKind::Rsa2048, Version::Tls12)),
        Row {
            title: "Resumed TLS 1.3 handshake and one request, certificates held",
            measure: Measure::Handshakes {
                count: 10_000,
                resumed: true,
            },
            ..held("resumed", KeyKind::Ecdsa, Version::Tls13)
        },
        Row {
            title: "Handshake and one request by X25519MLKEM768, certificates held",
            cases: &[hybrid(NEXT), hybrid(SEKISHO)],
            ..held("held-hybrid", KeyKind::Ecdsa, Version::Tls13)
        },
        read("read-ecdsa-tls13", KeyKind::Ecdsa, Version::Tls13),
        heavy(&read("read-ecdsa-tls12", KeyKind::Ecdsa, Version::Tls12)),
        heavy(&read("read-rsa-tls13", KeyKind::Rsa2048, Version::Tls13)),
        Row {
            id: "preloaded-100000",
            title: "Another of 100,000 hosts for each handshake, all preloaded by the peers",
            cases: &[
                Case {
                    asked: Asked::All,
                    ..nginx("nginx, preloaded", Loaded::All)
                },
                Case {
                    asked: Asked::All,
                    setup: Setup::HaProxy,
                    ..nginx("HAProxy", Loaded::All)
                },
                cold_from("sekisho", Store::Sqlite),
            ],
            heavy: true,
            ..read("", KeyKind::Ecdsa, Version::Tls13)
        },
        relay("relay-0ms", 0),
        relay("relay-1ms", 1),
        relay("relay-5ms", 5),
        servers("servers-2", 2),
        servers("servers-4", 4),
        servers("servers-8", 8),
    ],
    tests: &[],
    minutes: [95, 1],
    disk: [4 * GIB, GIB / 2],
    memory: [10 * GIB, 2 * GIB],
};

/// Returns a row that asks for a hundred hosts in turn. Cases without a cache read each certificate.
const fn held(id: &'static str, key: KeyKind, version: Version) -> Row {
    Row {
        id,
        title: "Handshake and one request, certificates held",
        key,
        version,
        hosts: Hosts::Exactly(100),
        measure: FULL,
        cases: HELD,
        ..BASE
    }
}

/// No server holds the certificate of the next host, but for the first case: it has a hundred hosts
/// preloaded, and is asked for these alone.
const fn read(id: &'static str, key: KeyKind, version: Version) -> Row {
    Row {
        id,
        title: "Handshake and one request, another host each time, its certificate read for it",
        key,
        version,
        hosts: Hosts::Many,
        measure: FULL,
        cases: READ,
        ..BASE
    }
}

/// The stores are as far away as a round trip of this many milliseconds.
const fn relay(id: &'static str, round_trip: u64) -> Row {
    Row {
        title: "Handshake and one request, with a round trip to the stores",
        // Far more than fit into a memory cache of 1 MiB.
        hosts: Hosts::Exactly(10_000),
        cases: FAR,
        heavy: round_trip != 1,
        round_trip: Some(Duration::from_millis(round_trip)),
        ..read(id, KeyKind::Ecdsa, Version::Tls13)
    }
}

const HELD: &[Case] = &[
    nginx("nginx, preloaded", Loaded::All),
    nginx("nginx, files by variable", Loaded::ByVariable),
    Case {
        setup: Setup::Apache,
        ..nginx("Apache", Loaded::All)
    },
    Case {
        setup: Setup::HaProxy,
        ..nginx("HAProxy", Loaded::All)
    },
    Case {
        setup: Setup::Caddy,
        ..nginx("Caddy", Loaded::All)
    },
    Case {
        setup: Setup::NginxLua,
        ..nginx("nginx, Lua and Redis, blocking", Loaded::Hundred)
    },
    LUA,
    LUA_CACHED,
    NEXT,
    NEXT_VARIABLE,
    NEXT_CACHED,
    SEKISHO,
    HOOKED,
];
const READ: &[Case] = &[
    NGINX,
    NGINX_VARIABLE,
    cold_from("sekisho, SQLite", Store::Sqlite),
    cold_from("sekisho, files", Store::Files),
    cold_from("sekisho, Redis", Store::Redis(Copies::None)),
    cold_from("sekisho, PostgreSQL", Store::Postgres(Copies::None)),
    cold_from("sekisho, Redis cache before PostgreSQL", Store::RedisCache),
    HOOKED_REDIS,
    Case {
        asked: Asked::All,
        ..NEXT_VARIABLE
    },
    Case {
        asked: Asked::All,
        ..NEXT_CACHED
    },
    Case {
        asked: Asked::All,
        ..LUA
    },
    Case {
        asked: Asked::All,
        ..LUA_CACHED
    },
    Case {
        asked: Asked::All,
        setup: Setup::CaddyHttp,
        ..nginx("Caddy, get_certificate http", Loaded::All)
    },
];

pub(super) const NEXT: Case = next("nginx 1.28, preloaded", Loaded::All, false);
const LUA: Case = lua("nginx, Lua and Redis, not blocking", false);
pub(super) const LUA_CACHED: Case = lua("nginx, Lua and Redis, not blocking, cached", true);
const NEXT_VARIABLE: Case = next("nginx 1.28, files by variable", Loaded::ByVariable, false);
pub(super) const NEXT_CACHED: Case = next(
    "nginx 1.28, files by variable, ssl_certificate_cache",
    Loaded::ByVariable,
    true,
);

/// Case whose clients offer nothing but the hybrid group, which Debian's nginx does not have.
const fn hybrid(case: Case) -> Case {
    Case {
        group: Group::X25519mlkem768,
        ..case
    }
}

const fn lua(label: &'static str, is_cached: bool) -> Case {
    Case {
        setup: Setup::NginxCosocket { is_cached },
        ..nginx(label, Loaded::Hundred)
    }
}

const fn next(label: &'static str, loaded: Loaded, is_cached: bool) -> Case {
    Case {
        setup: Setup::NginxNext { loaded, is_cached },
        ..nginx(label, loaded)
    }
}

const FAR: &[Case] = &[
    cold_from("sekisho, Redis", Store::Redis(Copies::None)),
    cold_from("sekisho, PostgreSQL", Store::Postgres(Copies::None)),
    cold_from("sekisho, Redis cache before PostgreSQL", Store::RedisCache),
    sekisho(
        "sekisho, Redis, in memory",
        Store::Redis(Copies::None),
        "64MiB",
    ),
    sekisho(
        "sekisho, PostgreSQL, in memory",
        Store::Postgres(Copies::None),
        "64MiB",
    ),
    sekisho(
        "sekisho, Redis cache before PostgreSQL, in memory",
        Store::RedisCache,
        "64MiB",
    ),
];
