//! The command line of `compare`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;

use super::rows::Row;
use super::stores::STORE_ROWS;
use super::table::ROWS;

/// What to compare, and where things are.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The sekisho binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    pub(crate) sekisho: PathBuf,

    /// Another sekisho binary: run in turn with the first, which is divided by it round by
    /// round; nginx is left out
    #[arg(long, value_name = "FILE", conflicts_with = "peers_only")]
    pub(crate) against: Option<PathBuf>,

    /// The nginx binary
    #[arg(long, value_name = "FILE", default_value = "nginx")]
    pub(crate) nginx: PathBuf,

    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub(crate) out: PathBuf,

    /// Folder for certificates, stores and logs, used again by the next run
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub(crate) work: PathBuf,

    /// Only these rows, separated by commas; --list shows all
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    pub(crate) rows: Vec<String>,

    /// The rows about stores elsewhere instead of the others; starts a Redis and a
    /// PostgreSQL of its own
    #[arg(long)]
    pub(crate) stores: bool,

    /// List the rows
    #[arg(long)]
    pub(crate) list: bool,

    /// 10,000 hosts instead of 100,000, a fifth of the work, three rounds, no heavy rows
    #[arg(long)]
    pub(crate) quick: bool,

    /// Rounds of which the median counts [default: 5, or 3 with --quick]
    #[arg(long, value_name = "N")]
    pub(crate) rounds: Option<usize>,

    /// Also nginx with all hosts preloaded: with 100,000, 100 seconds and 4 GB per start
    #[arg(long)]
    pub(crate) with_preloaded_100k: bool,

    /// Leave sekisho out, to check the other side alone
    #[arg(long)]
    pub(crate) peers_only: bool,

    /// Core of the servers
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    pub(crate) server_core: usize,

    /// Core of the client
    #[arg(long, value_name = "CORE", default_value_t = 1)]
    pub(crate) client_core: usize,
}

impl Options {
    /// Returns the selected rows in the order of the table.
    pub(crate) fn selected(&self) -> Result<Vec<&'static Row>> {
        for id in &self.rows {
            ensure!(
                all().any(|row| row.id == id),
                "there is no row {id:?}; --list shows all"
            );
        }
        let wanted = |row: &&Row| {
            if self.rows.is_empty() {
                row.needs_service() == self.stores && !(self.quick && row.heavy)
            } else {
                self.rows.iter().any(|id| id == row.id)
            }
        };
        Ok(all().filter(wanted).collect())
    }

    /// Returns the binaries in the order of the first round.
    pub(crate) fn binaries(&self) -> &'static [Binary] {
        match (&self.against, self.peers_only) {
            (Some(_), _) => &[Binary::Baseline, Binary::Measured],
            (None, false) => &[Binary::Measured],
            (None, true) => &[],
        }
    }

    pub(crate) fn program(&self, binary: Binary) -> &Path {
        match (binary, &self.against) {
            (Binary::Baseline, Some(baseline)) => baseline,
            (Binary::Baseline | Binary::Measured, _) => &self.sekisho,
        }
    }

    pub(crate) fn rounds(&self) -> usize {
        self.rounds.unwrap_or(if self.quick { 3 } else { 5 })
    }
}

/// Binaries of sekisho that a run may have.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Binary {
    /// Binary of `--sekisho`.
    Measured,
    /// Binary of `--against`.
    Baseline,
}

fn all() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(STORE_ROWS)
}

/// Examples below `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  Everything, about half an hour and 15 GB of disk:
    sekisho-bench compare --sekisho target/release/sekisho --out bench/results
  The stores elsewhere, about ten minutes, without the other rows:
    sekisho-bench compare --stores
  Two builds of sekisho, pair by pair:
    sekisho-bench compare --against old/sekisho --rows cached,cold --rounds 9
  Some rows in a minute:
    sekisho-bench compare --quick --rows cached,cold,keepalive-100

The exit code is 1 if a case failed, so that there are no figures for it. A goal that was missed
is in the report.
";
