//! The evaluation of the papers, part by part: each part is rows of this comparison, whose
//! results are kept in files of their own, so that a run that ended goes on where it stopped.

mod again;
mod against;
mod cache;
mod claims;
mod evaluation;
mod fork;
mod handshakes;
mod kept;
mod month;
mod only;
mod others;
mod part;
mod preload;
mod servers;
mod stuck;
mod tally;
mod test;
mod throughput;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

pub(crate) use self::evaluation::{
    EXAMPLES as EVALUATION_EXAMPLES, EvaluationOptions, run as evaluation,
};

use self::kept::{Kept, Results, Run};
use self::part::{PARTS, Part};
use self::tally::Tally;
use self::test::Test;
use super::counters::Support;
use super::left_out::PeerKind;
use super::options::Options;
use super::prepare::{prepare, store_of};
use super::report::RowResult;
use super::rows::Row;
use super::setup::Place;
use super::upstreams::Upstreams;
use super::workspace::Workspace;
use super::{machine, round, workspace};

/// Which parts to run, and where their results lie.
#[derive(Args, Clone, Debug)]
pub(crate) struct PaperOptions {
    /// Parts to run, in this order; --list shows all [default: all]
    #[arg(value_name = "PART")]
    parts: Vec<String>,

    /// List the parts with the time that each takes, or those that are named, with their rows
    #[arg(long)]
    list: bool,

    /// Only these rows of the parts, separated by commas
    #[arg(long, value_name = "ROWS", value_delimiter = ',')]
    rows: Vec<String>,

    /// Folder of the results. What it holds of this machine and these versions is kept, and not
    /// measured again
    #[arg(long, value_name = "DIR", default_value = "target/paper")]
    out: PathBuf,

    /// Peers that may be missing, separated by commas
    #[arg(long, value_name = "PEERS", value_delimiter = ',')]
    without: Vec<PeerKind>,

    /// Compare the results of --out, of these parts and rows, with those of another run, and
    /// measure nothing
    #[arg(long, value_name = "DIR")]
    against: Option<PathBuf>,

    /// A small run: fewer hosts, a fifth of the work, one round
    #[arg(long)]
    quick: bool,

    /// Rounds of which the median counts [default: 3, or 1 with --quick]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,

    /// The sekisho binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// A trained build of the same sources (make release): runs beside the first
    #[arg(long, value_name = "FILE")]
    trained: Option<PathBuf>,

    /// Folder for certificates, stores and logs, used again by the next run
    #[arg(long, value_name = "DIR", default_value_os_t = workspace::usual())]
    work: PathBuf,
}

pub(crate) fn run(options: &PaperOptions) -> Result<()> {
    let parts = options.selected()?;
    if options.list {
        options.list(&parts);
        return Ok(());
    }
    only::check(&options.rows, &parts, options.quick)?;
    if let Some(other) = &options.against {
        return against::compare(&options.out, other, &parts, &options.rows);
    }
    super::block_on(evaluate(options, &parts))
}

async fn evaluate(options: &PaperOptions, parts: &[&'static Part]) -> Result<()> {
    let compared = options.compared();
    let workspace = Workspace::open(&compared.work)?;
    let support = Support::probe();
    let mut facts = machine::facts(&compared, &support);
    facts.extend(machine::hashes(&compared)?);
    let run = Run::new(options.quick, compared.rounds(), facts);
    let results = Results::open(&options.out, parts, run)?;
    announce(options, parts, &results, &workspace)?;
    let bench = Bench {
        workspace,
        support,
        cores: machine::allowed_cores()?,
        options: compared,
    };
    let mut tally = Tally::default();
    for part in parts {
        let wanted = |id: &str| only::has(&options.rows, id);
        for row in part.rows(options.quick).filter(|row| wanted(row.id)) {
            if let Some(kept) = done(&results, part, row.id)? {
                tally.add(&kept);
                continue;
            }
            let measured = bench.steady(row).await;
            tally.add(&results.keep(part.id, measured)?);
        }
        for test in part.tests(options.quick).filter(|test| wanted(test.id)) {
            if let Some(kept) = done(&results, part, test.id)? {
                tally.add(&kept);
                continue;
            }
            let tested = bench.test(test).await;
            tally.add(&results.keep(part.id, tested)?);
        }
        results.render(part)?;
    }
    tally.judge(parts.len(), &options.without)
}

fn done(results: &Results, part: &Part, id: &str) -> Result<Option<RowResult>> {
    let kept = results.find(part.id, id)?;
    if kept.is_some() {
        eprintln!("{id}: measured already");
    }
    Ok(kept)
}

/// Says what the parts will take, and refuses to begin without the room for it.
fn announce(
    options: &PaperOptions,
    parts: &[&Part],
    results: &Results,
    workspace: &Workspace,
) -> Result<()> {
    let mut left = Vec::new();
    for part in parts {
        if !results.is_done(part)? {
            left.push(*part);
        }
    }
    let minutes: u32 = left.iter().map(|part| part.minutes(options.quick)).sum();
    eprintln!("{} parts, about {minutes} minutes", left.len());
    let disk = |parts: &[&Part]| parts.iter().map(|part| part.disk(options.quick)).sum();
    let needed = needed(disk(parts), disk(&left), workspace.held_space()?);
    let free = workspace.free_space()?;
    ensure!(
        free >= needed,
        "{} has {} MiB left, and the parts need {} MiB; name another folder by --work",
        options.work.display(),
        free >> 20,
        needed >> 20
    );
    let memory = machine::free_memory()?;
    left.iter()
        .try_for_each(|part| part.check_memory(options.quick, memory))
}

/// Returns the bytes that a run still needs, of what all its parts need and what those need
/// that are left. What the folder holds may be of parts that are done.
fn needed(all: u64, left: u64, held: u64) -> u64 {
    left.min(all.saturating_sub(held))
}

/// Means of all measurements.
struct Bench {
    options: Options,
    workspace: Workspace,
    support: Support,
    /// Cores of this process at its start.
    cores: String,
}

impl Bench {
    /// Measures a row. Cases whose rounds differ too much met a busy machine: they are measured
    /// again, [`ATTEMPTS`] times in all, and the best attempt of each counts.
    async fn steady(&self, row: &'static Row) -> Kept {
        let mut result = self.attempt(row, None).await;
        for _ in 1..ATTEMPTS {
            let unsteady = result.unsteady(SPREAD);
            if unsteady.is_empty() {
                break;
            }
            eprintln!("  rounds differ: {}; again", unsteady.join(", "));
            let again = self
                .attempt(row, Some(&again::beside(row, &unsteady)))
                .await;
            result.improve(&unsteady, again);
        }
        let unsteady = result.unsteady(SPREAD);
        Kept { result, unsteady }
    }

    /// Measures a row, or these cases of it.
    async fn attempt(&self, row: &'static Row, only: Option<&[&str]>) -> RowResult {
        let measured = self.measure(row, only).await;
        measured.unwrap_or_else(|error| failed(row.id, row.title, &error))
    }

    async fn test(&self, test: &'static Test) -> Kept {
        // A test chooses cores itself.
        super::pin(&self.cores);
        let tested = test.run(&self.options).await;
        tested.unwrap_or_else(|error| Kept {
            result: failed(test.id, "A test of the whole system", &error),
            unsteady: Vec::new(),
        })
    }

    async fn measure(&self, row: &'static Row, only: Option<&[&str]>) -> Result<RowResult> {
        let (options, workspace) = (&self.options, &self.workspace);
        // Certificates and imports take all cores; the row before left the client's alone.
        super::pin(&self.cores);
        let unprepared = prepare(options, workspace, &[row]).await;
        let services = super::services(options, workspace, &[row], &unprepared).await?;
        super::settle(options.client_core);
        let upstreams = Upstreams::start(&[row], workspace, options).await?;
        let place = Place {
            options,
            workspace,
            services: &services,
            upstreams: &upstreams,
            support: &self.support,
        };
        let missing = unprepared.get(&store_of(options, row));
        Ok(round::measure(place, row, missing, only).await)
    }
}

/// Returns the result of a row none of whose cases could begin.
fn failed(id: &'static str, title: &'static str, error: &anyhow::Error) -> RowResult {
    eprintln!("  {id} failed: {error:#}");
    RowResult::failed(id, title, &format!("{error:#}"))
}

impl PaperOptions {
    fn selected(&self) -> Result<Vec<&'static Part>> {
        if self.parts.is_empty() {
            return Ok(PARTS.iter().collect());
        }
        let find = |id: &String| {
            let found = PARTS.iter().find(|part| part.id == id);
            found.with_context(|| format!("there is no part {id:?}; --list shows all"))
        };
        self.parts.iter().map(find).collect()
    }

    /// Lists parts, and the rows of those that are named.
    fn list(&self, parts: &[&Part]) {
        for part in parts {
            let minutes = part.minutes(self.quick);
            println!("{:12} {minutes:3} min  {}", part.id, part.title);
            for id in part.results(self.quick).filter(|_| !self.parts.is_empty()) {
                println!("  {id}");
            }
        }
    }

    /// Returns the options of the comparison that measures the rows.
    fn compared(&self) -> Options {
        Options {
            sekisho: self.sekisho.clone(),
            trained: self.trained.clone(),
            work: self.work.clone(),
            quick: self.quick,
            rounds: Some(self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS })),
            ..Options::default()
        }
    }
}

/// Part of the median by which the rounds of a case may differ.
const SPREAD: f64 = 0.25;
const ATTEMPTS: usize = 3;
/// Rounds of a full run: it takes hours.
const ROUNDS: usize = 3;

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  All parts, small, in some minutes, without the peers that would be built first:
    sekisho-bench paper --quick --without caddy,nginx-1.28
  Start-up and memory against the number of hosts, without Caddy:
    sekisho-bench paper preload --without caddy
  One row again, in a folder of its own:
    sekisho-bench paper preload --rows ecdsa-1000 --out target/paper-again
  What differs by more than 10 % from an earlier run:
    sekisho-bench paper --out target/paper --against target/paper-before
  One part beside the results of the project:
    sekisho-bench paper stuck --against bench/results/paper

The exit code is 1 if a case failed, or if a peer is missing that --without does not name. A run
that was ended goes on where it stopped, if it is given the same folder.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_goes_on_needs_less_room() {
        for (left, held, wanted) in [
            (20, 0, 20),
            (20, 5, 15),
            (8, 12, 8),
            (8, 15, 5),
            // Another folder, or more in it than was reckoned.
            (8, 0, 8),
            (8, 30, 0),
            (0, 0, 0),
        ] {
            assert_eq!(needed(20, left, held), wanted);
        }
    }
}
