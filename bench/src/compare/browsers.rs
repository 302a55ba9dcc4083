//! Table of the rows whose clients do as browsers do: their key exchange, HTTP/2, and
//! connections that begin whenever one likes.

use super::rows::{Case, Goal, Measure, Row, Scale, figure};
use super::sekisho::Store;
use super::table::{BASE, FULL, NGINX, NGINX_ALL, SEKISHO, cold, ratio};
use sekisho_bench::tls::Group;

pub(crate) const PQ: Row = Row {
    id: "pq",
    title: "Full TLS 1.3 handshake and one request by X25519MLKEM768, and by X25519, cached",
    measure: FULL,
    cases: &[
        Case {
            label: "sekisho, X25519",
            ..SEKISHO
        },
        Case {
            label: HYBRID,
            group: Group::X25519mlkem768,
            ..SEKISHO
        },
        Case {
            label: "nginx, X25519MLKEM768",
            group: Group::X25519mlkem768,
            ..NGINX
        },
    ],
    goals: &[Goal {
        case: Some(HYBRID),
        ..ratio(1.25, Some(1.15))
    }],
    ..BASE
};

pub(crate) const IDLE_H2: Row = Row {
    id: "idle-h2",
    title: "Memory per idle HTTP/2 connection, after one request",
    measure: Measure::IdleMemory {
        connections: 1_000,
        http2: true,
    },
    goals: &[Goal {
        figure: figure::EACH,
        ..ratio(1.0, Some(0.8))
    }],
    ..BASE
};

/// The peer has all of its hosts in memory; half of the server's handshakes read SQLite.
pub(crate) const LOADED: Row = Row {
    id: "loaded",
    title: "Connections by the clock, 70 % of what saturates nginx, half of them to cold hosts",
    measure: Measure::Loaded {
        percent: 70,
        seconds: 10,
    },
    cases: &[NGINX, NGINX_ALL, cold(Store::Sqlite)],
    goals: &[Goal {
        figure: figure::P99,
        scale: Scale::Ratio,
        must: 1.0,
        aim: None,
        case: None,
    }],
    ..BASE
};

const HYBRID: &str = "sekisho, X25519MLKEM768";
