//! Faults while certificates are ordered: servers are killed at each step, two work on
//! the same names, strangers flood them, the CA hangs, one tenant orders very many
//! names, hosts lead elsewhere for a while. Real servers on SQLite catalogs order at a real CA (Pebble).

mod floods;
mod hang;
mod kills;
mod mended;
pub(crate) mod neighbours;
mod orders;
mod tenants;
mod together;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tokio::runtime;
use tokio::task::LocalSet;
use tokio::time::Instant;

use self::kills::Kills;
use self::mended::Mended;
use crate::acme::Setting;
use crate::chaos::interrupted;

/// What to run, and how much of it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// A small run of two minutes, of small numbers
    #[arg(long)]
    quick: bool,

    /// Which parts; all if none is named
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    parts: Vec<Part>,

    /// Names of each flood, 10,000 a minute [default: 10000, 1000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    names: Option<u32>,

    /// Hosts that lead elsewhere at first; each takes some five of the 300 orders that the
    /// CA grants an account in three hours [default: 40, 20 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=200))]
    hosts: Option<u32>,

    /// Visitors who wait for a CA that hangs [default: 1000, 60 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=1000))]
    visits: Option<u32>,

    /// Names of the tenant with many [default: 50000, 1000 with --quick]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(200..=1_000_000))]
    lineages: Option<u32>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Part {
    /// Hosts lead elsewhere for 15 minutes, at a CA with Let's Encrypt's limits
    Mended,
    /// A server is killed at each step of an order
    Kills,
    /// Two servers are visited for the same names
    Together,
    /// Strangers ask for names that nobody has
    Floods,
    /// The CA does not answer
    Hang,
    /// One tenant has very many names
    Tenants,
}

impl Part {
    const ALL: [Self; 6] = [
        Self::Mended,
        Self::Kills,
        Self::Together,
        Self::Floods,
        Self::Hang,
        Self::Tenants,
    ];
}

impl Options {
    fn parts(&self) -> Vec<Part> {
        match self.parts.is_empty() {
            true => Part::ALL.to_vec(),
            false => self.parts.clone(),
        }
    }

    fn count(&self, given: Option<u32>, whole: u32, quick: u32) -> usize {
        let count = given.unwrap_or(if self.quick { quick } else { whole });
        count as usize
    }
}

/// Counts of what happened, over all parts.
#[derive(Default)]
pub(super) struct Counts {
    kills: usize,
    certificates: usize,
    orders: usize,
    /// Orders that nobody could know of after a kill.
    twice: usize,
    lost: Vec<String>,
    second: Vec<String>,
    /// Bounds that were not kept.
    broken: Vec<String>,
    /// Parts of the last line.
    said: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            ended = faults(options) => ended,
            interrupted = interrupted() => interrupted,
        }
    })
}

async fn faults(options: &Options) -> Result<()> {
    let begun = Instant::now();
    let setting = Arc::new(Setting::new(&options.sekisho).await?);
    let mut counts = Counts::default();
    let (mut kills, mut mended) = (None, None);
    for part in options.parts() {
        let counts = &mut counts;
        match part {
            Part::Mended => {
                let hosts = options.count(options.hosts, 40, 20);
                let scale = if options.quick { QUICK_SCALE } else { 1 };
                mended = Some(Mended::begin(&setting, hosts, scale));
            }
            Part::Kills => {
                let begun = Kills::begin(&setting).await?;
                if options.quick {
                    // The claims of the dead end meanwhile.
                    kills = Some(begun);
                } else {
                    begun.end(counts).await?;
                }
            }
            Part::Together => together::run(&setting, NAMES, counts).await?,
            Part::Floods => {
                let names = options.count(options.names, 10_000, 1000);
                floods::run(&setting, names, counts).await?;
            }
            Part::Hang => {
                let visits = options.count(options.visits, 1000, 60);
                hang::run(&setting, visits, counts).await?;
            }
            Part::Tenants => {
                let lineages = options.count(options.lineages, 50_000, 1000);
                tenants::run(&setting, lineages, counts).await?;
            }
        }
    }
    if let Some(kills) = kills {
        kills.end(&mut counts).await?;
    }
    if let Some(mended) = mended {
        mended.end(&mut counts).await?;
    }
    println!("{:.0} s", begun.elapsed().as_secs_f64());
    counts.judge()
}

impl Counts {
    fn judge(&self) -> Result<()> {
        for (what, which) in [
            ("lost", &self.lost),
            ("second order", &self.second),
            ("broken", &self.broken),
        ] {
            for one in which {
                println!("{what}: {one}");
            }
        }
        let said: String = self.said.iter().map(|part| format!(", {part}")).collect();
        println!(
            "acme-faults: {} kills, {} certificates, {} orders ({} allowed twice), {} lost{said}",
            self.kills,
            self.certificates,
            self.orders,
            self.twice,
            self.lost.len(),
        );
        let failures = self.lost.len() + self.second.len() + self.broken.len();
        ensure!(failures == 0, "{failures} failures, see above");
        Ok(())
    }
}

pub(crate) const EXAMPLES: &str = "\
Starts Pebble, which `make deps` installs, and servers on SQLite catalogs of their own.
It fails if a certificate is lost, a name is ordered twice where one order was known, or
a bound is not kept. The last line has the counts.

Examples:
  sekisho-system-tests acme-faults
  sekisho-system-tests acme-faults --quick
  sekisho-system-tests acme-faults --parts kills --sekisho target/debug/sekisho";

/// How much faster than real time hosts are mended in a small run: their 15 minutes are
/// one, and the server looks each 5 s for what is due.
const QUICK_SCALE: u32 = 15;
/// Names that two servers are visited for.
const NAMES: usize = 20;
