//! Part 2: requests on connections that stay open, dynamic beside preloaded (JIP 2019, table
//! 3): 600,000 for each case. The paper had 5,000,000; with nine cases that takes hours.

use super::super::rows::{Case, Hosts, Loaded, Measure, Row, Setup};
use super::super::sekisho::{Copies, Store};
use super::super::table::{BASE, SEKISHO, nginx, ratio, sekisho};
use super::handshakes::NEXT;
use super::part::{GIB, Part};
use crate::fixtures::KeyKind;
use sekisho_bench::tls::Version;

pub(super) const THROUGHPUT: Part = Part {
    id: "throughput",
    title: "Requests on connections that stay open",
    rows: &[
        tls13("tls13-10", 10),
        tls13("tls13-100", 100),
        tls13("tls13-500", 500),
        tls13("tls13-1000", 1_000),
        tls12("tls12-10", 10),
        tls12("tls12-100", 100),
        tls12("tls12-500", 500),
        tls12("tls12-1000", 1_000),
        wrk("wrk-10", 10),
        wrk("wrk-100", 100),
        wrk("wrk-500", 500),
        wrk("wrk-1000", 1_000),
    ],
    tests: &[],
    minutes: [35, 2],
    disk: [GIB, GIB / 2],
    memory: [2 * GIB, GIB],
};

const fn tls13(id: &'static str, connections: usize) -> Row {
    Row {
        id,
        title: "TLS 1.3, ECDSA P-256",
        hosts: Hosts::Exactly(100),
        measure: Measure::Requests {
            connections,
            each: ROUND / connections as u64,
        },
        cases: CASES,
        // The papers' claim: dynamic within 1 % of preloaded. sekisho preloads nothing, and is
        // compared with the nginx that does.
        goals: const { &[ratio(1.01, None)] },
        heavy: connections != 10 && connections != 1_000,
        ..BASE
    }
}

/// The suite as published: ECDHE-RSA-AES128-GCM-SHA256.
const fn tls12(id: &'static str, connections: usize) -> Row {
    Row {
        title: "TLS 1.2, ECDHE-RSA-AES128-GCM-SHA256",
        key: KeyKind::Rsa2048,
        version: Version::Tls12,
        cases: CASES,
        heavy: connections != 1_000,
        ..tls13(id, connections)
    }
}

/// The client of the papers, with their suite. It asks for one host alone.
const fn wrk(id: &'static str, connections: usize) -> Row {
    Row {
        title: "TLS 1.2, ECDHE-RSA-AES128-GCM-SHA256, requests by wrk",
        measure: Measure::Wrk {
            connections,
            seconds: 10,
        },
        heavy: connections != 100,
        // Its handshakes are part of the work, which the papers' claim leaves out.
        goals: &[],
        most_rounds: 2,
        ..tls12(id, connections)
    }
}

const CASES: &[Case] = &[
    PRELOADED,
    nginx(BY_VARIABLE, Loaded::ByVariable),
    Case {
        setup: Setup::Apache,
        label: "Apache",
        ..PRELOADED
    },
    Case {
        setup: Setup::HaProxy,
        label: "HAProxy",
        ..PRELOADED
    },
    Case {
        setup: Setup::Caddy,
        label: "Caddy",
        ..PRELOADED
    },
    SEKISHO,
    sekisho("sekisho, files", Store::Files, "64MiB"),
    sekisho("sekisho, Redis", Store::Redis(Copies::None), "64MiB"),
    NEXT,
];
pub(super) const BY_VARIABLE: &str = "nginx, files by variable";
const PRELOADED: Case = nginx("nginx, preloaded", Loaded::All);
/// Requests of a round; a quick run asks for a fifth.
const ROUND: u64 = 200_000;
