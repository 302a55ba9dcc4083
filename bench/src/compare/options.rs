//! The command line of `compare`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::{Args, Command, FromArgMatches};

use super::rows::Row;
use super::stores::STORE_ROWS;
use super::table::ROWS;
use super::workspace;

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

    /// A trained build of the same sources (make release): runs beside the first, with the same
    /// stores
    #[arg(long, value_name = "FILE", conflicts_with_all = ["against", "peers_only"])]
    pub(crate) trained: Option<PathBuf>,

    /// The nginx binary
    #[arg(long, value_name = "FILE", default_value = "nginx")]
    pub(crate) nginx: PathBuf,

    /// The Apache binary, whose modules lie where Debian has them
    #[arg(long, value_name = "FILE", default_value = "apache2")]
    pub(crate) apache: PathBuf,

    /// The HAProxy binary
    #[arg(long, value_name = "FILE", default_value = "haproxy")]
    pub(crate) haproxy: PathBuf,

    /// The Caddy binary, from tools/caddy
    #[arg(long, value_name = "FILE", default_value = "target/caddy-2.11.9/caddy")]
    pub(crate) caddy: PathBuf,

    /// Folder for the report
    #[arg(long, value_name = "DIR", default_value = "bench/results")]
    pub(crate) out: PathBuf,

    /// Folder for certificates, stores and logs, used again by the next run
    #[arg(long, value_name = "DIR", default_value_os_t = workspace::usual())]
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

    /// Run sekisho alone, once, with a fifth of the work and without a report: the profile of
    /// an instrumented binary comes from this (make release)
    #[arg(long, conflicts_with_all = ["against", "trained", "peers_only", "rounds"])]
    pub(crate) train: bool,

    /// Core of the servers
    #[arg(long, value_name = "CORE", default_value_t = 0)]
    pub(crate) server_core: usize,

    /// Core of the client
    #[arg(long, value_name = "CORE", default_value_t = 1)]
    pub(crate) client_core: usize,

    /// The binary of a newer nginx, from tools/nginx-1.28
    #[arg(long, value_name = "FILE", default_value = "target/nginx-1.28/nginx")]
    pub(crate) nginx_next: PathBuf,
}

impl Default for Options {
    /// Returns the options of a command line without any.
    fn default() -> Self {
        let command = Self::augment_args(Command::new("compare"));
        let parsed = Self::from_arg_matches(&command.get_matches_from(["compare"]));
        parsed.expect("each option has a default")
    }
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
            if !self.rows.is_empty() {
                self.rows.iter().any(|id| id == row.id)
            } else if self.train {
                row.is_training()
            } else {
                row.needs_service() == self.stores && !(self.quick && row.heavy)
            }
        };
        Ok(all().filter(wanted).collect())
    }

    /// Returns the binaries in the order of the first round.
    pub(crate) fn binaries(&self) -> &'static [Binary] {
        if self.against.is_some() {
            &[Binary::Baseline, Binary::Measured]
        } else if self.trained.is_some() {
            &[Binary::Measured, Binary::Trained]
        } else if self.peers_only {
            &[]
        } else {
            &[Binary::Measured]
        }
    }

    pub(crate) fn program(&self, binary: Binary) -> &Path {
        let other = match binary {
            Binary::Measured => None,
            Binary::Baseline => self.against.as_deref(),
            Binary::Trained => self.trained.as_deref(),
        };
        other.unwrap_or(&self.sekisho)
    }

    pub(crate) fn rounds(&self) -> usize {
        match self.rounds {
            _ if self.train => 1,
            Some(rounds) => rounds,
            None if self.quick => 3,
            None => 5,
        }
    }

    /// Returns whether a run has fewer hosts, and a fifth of the work.
    pub(crate) fn is_short(&self) -> bool {
        self.quick || self.train
    }

    /// Returns whether peers run beside sekisho.
    pub(crate) fn has_peers(&self) -> bool {
        self.against.is_none() && !self.train
    }
}

/// Binaries of sekisho that a run may have.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Binary {
    /// Binary of `--sekisho`.
    Measured,
    /// Binary of `--against`.
    Baseline,
    /// Binary of `--trained`.
    Trained,
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
