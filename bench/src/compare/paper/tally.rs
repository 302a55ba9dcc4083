//! Sums of a run.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};

use super::super::left_out::{Lack, LeftOut, PeerKind};
use super::super::report::RowResult;

/// Cases of a run, by how they ended.
#[derive(Debug, Default)]
pub(super) struct Tally {
    cases: usize,
    failed: usize,
    left_out: BTreeSet<LeftOut>,
}

impl Tally {
    pub(super) fn add(&mut self, result: &RowResult) {
        self.cases += result.cases.len();
        self.failed += result.failures();
        self.left_out.extend(result.left_out.iter().cloned());
    }

    /// Prints the sums.
    ///
    /// # Errors
    /// If a case failed, or a peer is missing that `without` does not name.
    pub(super) fn judge(&self, parts: usize, without: &[PeerKind]) -> Result<()> {
        let names: Vec<String> = self.left_out.iter().map(LeftOut::to_string).collect();
        println!(
            "{parts} parts, {} cases, {} failed, {} left out: {}",
            self.cases,
            self.failed,
            names.len(),
            names.join("; ")
        );
        ensure!(self.failed == 0, "{} cases failed", self.failed);
        let missing = self.left_out.iter();
        let missing = missing.filter(|case| case.lack != Lack::Group);
        let mut missing = missing.filter(|case| !without.contains(&case.peer));
        if let Some(case) = missing.next() {
            bail!("{case}; install it, or leave it out by --without");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_fails_unless_it_is_named() {
        let caddy = LeftOut {
            case: "a case".to_owned(),
            peer: PeerKind::Caddy,
            lack: Lack::Program,
        };
        let tally = Tally {
            left_out: [caddy].into(),
            ..Tally::default()
        };
        assert!(tally.judge(1, &[]).is_err());
        assert!(tally.judge(1, &[PeerKind::HaProxy]).is_err());
        assert!(tally.judge(1, &[PeerKind::Caddy]).is_ok());
        let old = LeftOut {
            case: "another case".to_owned(),
            peer: PeerKind::Nginx,
            lack: Lack::Group,
        };
        let tally = Tally {
            left_out: [old].into(),
            ..Tally::default()
        };
        assert!(tally.judge(1, &[]).is_ok());
        let failed = Tally {
            failed: 1,
            ..Tally::default()
        };
        assert!(failed.judge(1, &[]).is_err());
    }
}
