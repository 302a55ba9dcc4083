//! Part 5: from a request to the first byte of a CGI program, against the number of hosts
//! that the server has (IPSJ 2017, table 3).

use super::super::rows::{Asked, Case, Content, Hosts, Measure, Row, Setup};
use super::super::sekisho::Store;
use super::super::table::{BASE, sekisho};
use super::part::{GIB, Part};

pub(super) const FORK: Part = Part {
    id: "fork",
    title: "From a request to the first byte of a CGI program",
    rows: &[
        row("fork-100", const { &[apache(100), ours(100)] }, false),
        row("fork-2456", const { &[apache(2_456), ours(2_456)] }, true),
        row(
            "fork-13408",
            const { &[apache(13_408), ours(13_408)] },
            true,
        ),
        row(
            "fork-22259",
            const { &[apache(22_259), ours(22_259)] },
            true,
        ),
        row("fork-1000000", const { &[ours(1_000_000)] }, true),
        load("cgi-100", const { &[apache(100), ours(100)] }, false),
        load("cgi-2456", const { &[apache(2_456), ours(2_456)] }, true),
        load("cgi-13408", const { &[apache(13_408), ours(13_408)] }, true),
        load("cgi-22259", const { &[apache(22_259), ours(22_259)] }, true),
        load("cgi-1000000", const { &[ours(1_000_000)] }, true),
    ],
    tests: &[],
    minutes: [40, 1],
    disk: [3 * GIB, GIB / 2],
    memory: [4 * GIB, GIB],
};

const fn row(id: &'static str, cases: &'static [Case], heavy: bool) -> Row {
    Row {
        id,
        title: "From a request to the first byte of a CGI program's answer",
        // Certificates: the hosts use them in turn.
        hosts: Hosts::Exactly(100),
        measure: Measure::FirstByte { count: 200 },
        cases,
        heavy,
        ..BASE
    }
}

/// Programs under load.
const fn load(id: &'static str, cases: &'static [Case], heavy: bool) -> Row {
    Row {
        title: "CPU time of CGI programs at half of the rate that saturates",
        measure: Measure::Programs {
            count: 300,
            seconds: 20,
        },
        most_rounds: 3,
        ..row(id, cases, heavy)
    }
}

const fn apache(hosts: usize) -> Case {
    Case {
        label: "Apache",
        setup: Setup::Apache,
        ..ours(hosts)
    }
}

const fn ours(hosts: usize) -> Case {
    Case {
        // The cache is filled with as many: a fork copies the page table of all of them.
        asked: Asked::All,
        content: Content::Programs(Hosts::Exactly(hosts)),
        ..sekisho("sekisho", Store::Sqlite, "1GiB")
    }
}
