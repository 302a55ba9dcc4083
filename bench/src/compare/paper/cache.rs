//! Part 7: hits of the memory cache against its size. Three sizes of each row are measured,
//! and the others simulated.

use super::super::rows::{Asked, Case, Hosts, Measure, Row, Setup};
use super::super::sekisho::Store;
use super::super::table::{BASE, sekisho};
use super::part::{GIB, Part, heavy};

pub(super) const CACHE: Part = Part {
    id: "cache",
    title: "Hits of the memory cache against its size",
    rows: &[
        heavy(&hits("hits-20000-zipf-0.8", 20_000, const { &small(0.8) })),
        hits("hits-20000-zipf-1.0", 20_000, const { &small(1.0) }),
        heavy(&hits("hits-20000-zipf-1.2", 20_000, const { &small(1.2) })),
        hits("hits-1000000-zipf-0.8", 1_000_000, const { &large(0.8) }),
        hits("hits-1000000-zipf-1.0", 1_000_000, const { &large(1.0) }),
        hits("hits-1000000-zipf-1.2", 1_000_000, const { &large(1.2) }),
        memory("memory-10000", 10_000),
        memory("memory-100000", 100_000),
        memory("memory-1000000", 1_000_000),
    ],
    tests: &[],
    minutes: [30, 1],
    disk: [12 * GIB, GIB / 2],
    memory: [4 * GIB, GIB],
};

const fn hits(id: &'static str, hosts: usize, cases: &'static [Case]) -> Row {
    Row {
        id,
        title: "Handshake and one request, visitors by Zipf's law",
        hosts: Hosts::Exactly(hosts),
        measure: Measure::Hits,
        cases,
        heavy: hosts > 20_000,
        ..BASE
    }
}

const fn memory(id: &'static str, hosts: usize) -> Row {
    Row {
        title: "Memory for a percentage of hits, simulated",
        ..hits(
            id,
            hosts,
            const {
                &[
                    simulated("Zipf 0.8", None, 0.8),
                    simulated("Zipf 1.0", None, 1.0),
                    simulated("Zipf 1.2", None, 1.2),
                ]
            },
        )
    }
}

const fn small(exponent: f64) -> [Case; 6] {
    [
        measured("sekisho, 1MiB", "1MiB", exponent),
        measured("sekisho, 2MiB", "2MiB", exponent),
        simulated("simulated, 4MiB", Some("4MiB"), exponent),
        measured("sekisho, 8MiB", "8MiB", exponent),
        simulated("simulated, 16MiB", Some("16MiB"), exponent),
        simulated("simulated, 32MiB", Some("32MiB"), exponent),
    ]
}

const fn large(exponent: f64) -> [Case; 8] {
    [
        measured("sekisho, 16MiB", "16MiB", exponent),
        simulated("simulated, 32MiB", Some("32MiB"), exponent),
        measured("sekisho, 64MiB", "64MiB", exponent),
        simulated("simulated, 128MiB", Some("128MiB"), exponent),
        measured("sekisho, 256MiB", "256MiB", exponent),
        simulated("simulated, 512MiB", Some("512MiB"), exponent),
        simulated("simulated, 1024MiB", Some("1024MiB"), exponent),
        simulated("simulated, 2048MiB", Some("2048MiB"), exponent),
    ]
}

const fn measured(label: &'static str, memory: &'static str, exponent: f64) -> Case {
    Case {
        asked: Asked::Zipf(exponent),
        ..sekisho(label, Store::Sqlite, memory)
    }
}

const fn simulated(label: &'static str, memory: Option<&'static str>, exponent: f64) -> Case {
    Case {
        setup: Setup::Cache(memory),
        ..measured(label, "", exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::simulation::bytes;
    use super::*;

    #[test]
    fn each_curve_rises_and_has_three_measured_sizes() {
        for row in CACHE.rows.iter().filter(|row| row.id.starts_with("hits-")) {
            let sizes: Vec<usize> = row
                .cases
                .iter()
                .map(|case| match case.setup {
                    Setup::Sekisho { memory, .. } => memory,
                    Setup::Cache(memory) => memory.unwrap(),
                    _ => panic!("{} has a peer", row.id),
                })
                .map(|memory| bytes(memory).unwrap())
                .collect();
            assert!(sizes.is_sorted_by(|less, more| less < more), "{}", row.id);
            let measured = row.cases.iter().filter(|case| case.setup.is_sekisho());
            assert_eq!(measured.count(), 3);
        }
    }
}
