//! Rows of several servers on one store.

use super::super::rows::{Case, Measure, Row};
use super::super::sekisho::{Copies, Store};
use super::super::table::{BASE, cold_from};

pub(super) const fn servers(id: &'static str, servers: usize) -> Row {
    Row {
        id,
        title: "Full TLS 1.3 handshake and one request, never cached, by servers of one store",
        measure: Measure::Servers {
            servers,
            count: 8_000,
        },
        cases: CASES,
        heavy: servers > 2,
        most_rounds: 3,
        ..BASE
    }
}

const CASES: &[Case] = &[
    cold_from("sekisho, PostgreSQL", Store::Postgres(Copies::None)),
    cold_from("sekisho, Redis", Store::Redis(Copies::None)),
];
