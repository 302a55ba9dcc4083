//! Table of the parts.

use anyhow::{Result, ensure};

use super::super::rows::Row;
use super::cache::CACHE;
use super::fork::FORK;
use super::handshakes::HANDSHAKES;
use super::month::MONTH;
use super::others::OTHERS;
use super::preload::PRELOAD;
use super::stuck::STUCK;
use super::test::Test;
use super::throughput::THROUGHPUT;

/// Part of the evaluation.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [Row],
    /// Tests with results of their own, run after the rows.
    pub(crate) tests: &'static [Test],
    /// Minutes of a full run, and of a quick one, with the certificates made.
    pub(crate) minutes: [u32; 2],
    /// Bytes of the work folder, likewise.
    pub(crate) disk: [u64; 2],
    /// Bytes of memory that its largest row takes, likewise.
    pub(crate) memory: [u64; 2],
}

impl Part {
    /// Returns the rows of a run: a quick one leaves out the heavy ones.
    pub(crate) fn rows(&self, quick: bool) -> impl Iterator<Item = &'static Row> + use<> {
        self.rows.iter().filter(move |row| !(quick && row.heavy))
    }

    /// Returns the tests of a run, likewise.
    pub(crate) fn tests(&self, quick: bool) -> impl Iterator<Item = &'static Test> + use<> {
        self.tests
            .iter()
            .filter(move |test| !quick || test.quick.is_some())
    }

    /// Returns the names of all results.
    pub(crate) fn results(&self, quick: bool) -> impl Iterator<Item = &'static str> + use<> {
        let rows = self.rows(quick).map(|row| row.id);
        rows.chain(self.tests(quick).map(|test| test.id))
    }

    pub(crate) fn minutes(&self, quick: bool) -> u32 {
        self.minutes[usize::from(quick)]
    }

    pub(crate) fn disk(&self, quick: bool) -> u64 {
        self.disk[usize::from(quick)]
    }

    /// Refuses a part for which this many bytes of memory are too few.
    pub(crate) fn check_memory(&self, quick: bool, free: u64) -> Result<()> {
        let needed = self.memory[usize::from(quick)];
        ensure!(
            free >= needed,
            "{} MiB of memory are free, and the part {} needs {} MiB; end other programs, or name \
             the parts that fit",
            free >> 20,
            self.id,
            needed >> 20
        );
        Ok(())
    }
}

pub(crate) const PARTS: &[Part] = &[
    PRELOAD, THROUGHPUT, HANDSHAKES, STUCK, FORK, MONTH, CACHE, OTHERS,
];

pub(super) const GIB: u64 = 1 << 30;

/// Leaves a row to full runs.
pub(super) const fn heavy(row: &Row) -> Row {
    Row {
        heavy: true,
        ..*row
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::rows::{Asked, Case, Content};
    use super::super::super::table::ROWS;
    use super::*;

    #[test]
    fn rows_have_names_of_their_own_within_a_part() {
        for part in PARTS {
            for (index, row) in part.rows.iter().enumerate() {
                assert!(part.rows[..index].iter().all(|other| other.id != row.id));
            }
            assert!(
                part.rows(true).next().is_some(),
                "{} has no quick row",
                part.id
            );
        }
    }

    #[test]
    fn cases_have_labels_of_their_own_within_a_row() {
        for row in PARTS.iter().flat_map(|part| part.rows) {
            let labels: Vec<_> = row.cases.iter().map(|case| case.label).collect();
            let is_twice = |(index, label)| labels[..index].contains(label);
            let twice = labels.iter().enumerate().find(|place| is_twice(*place));
            assert_eq!(twice, None, "{}", row.id);
        }
    }

    #[test]
    fn hosts_are_all_asked_for_where_certificates_are_read() {
        let rows = HANDSHAKES.rows.iter();
        for row in rows.filter(|row| row.id.starts_with("read-")) {
            // The first one has a hundred hosts, and stands for a handshake without a look-up.
            let others = row.cases[1..].iter();
            let few: Vec<_> = others.filter(|case| case.asked != Asked::All).collect();
            assert!(few.is_empty(), "{few:?}");
        }
    }

    #[test]
    fn a_part_is_refused_if_its_memory_is_not_free() {
        assert!(PRELOAD.check_memory(true, GIB).is_ok());
        let refused = PRELOAD
            .check_memory(false, 2 * GIB)
            .unwrap_err()
            .to_string();
        let said = "2048 MiB of memory are free, and the part preload needs 12288 MiB;";
        assert!(refused.starts_with(said), "{refused}");
    }

    #[test]
    fn caches_are_filled_with_all_hosts_before_programs_start() {
        let parts = PARTS.iter().flat_map(|part| part.rows);
        let cases = ROWS.iter().chain(parts).flat_map(|row| row.cases);
        let programs = cases.filter(|case| matches!(case.content, Content::Programs(_)));
        let (all, some): (Vec<&Case>, Vec<&Case>) = programs
            .filter(|case| case.setup.is_sekisho())
            .partition(|case| case.asked == Asked::All);
        assert!(!all.is_empty() && some.is_empty(), "{some:?}");
    }
}
