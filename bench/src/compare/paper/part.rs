//! Table of the parts.

use super::super::rows::Row;
use super::fork::FORK;
use super::handshakes::HANDSHAKES;
use super::preload::PRELOAD;
use super::stuck::STUCK;
use super::throughput::THROUGHPUT;

/// Part of the evaluation.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [Row],
    /// Minutes of a full run, and of a quick one, with the certificates made.
    pub(crate) minutes: [u32; 2],
    /// Bytes of the work folder, likewise.
    pub(crate) disk: [u64; 2],
}

impl Part {
    /// Returns the rows of a run: a quick one leaves out the heavy ones.
    pub(crate) fn rows(&self, quick: bool) -> impl Iterator<Item = &'static Row> + use<> {
        self.rows.iter().filter(move |row| !(quick && row.heavy))
    }

    pub(crate) fn minutes(&self, quick: bool) -> u32 {
        self.minutes[usize::from(quick)]
    }

    pub(crate) fn disk(&self, quick: bool) -> u64 {
        self.disk[usize::from(quick)]
    }
}

pub(crate) const PARTS: &[Part] = &[PRELOAD, THROUGHPUT, HANDSHAKES, STUCK, FORK];

pub(super) const GIB: u64 = 1 << 30;

#[cfg(test)]
mod tests {
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
}
