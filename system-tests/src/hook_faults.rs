//! Scripts that go wrong in each way, and what hosts beside them notice.

mod attack;
mod setting;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use self::attack::{Told, attack};
use self::setting::Setting;
use crate::acme_faults::neighbours::{visit, visit_within};
use sekisho_bench::accounting::Memory;
use sekisho_bench::load::Outcome;
use sekisho_bench::table::Table;

/// Which server, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Seconds of each fault
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// Judge an unoptimized server on a busy machine: 2 s of each fault, wider bounds
    #[arg(long)]
    quick: bool,

    /// Write the result as JSON into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Bounds on what hosts beside a fault notice.
struct Bounds {
    /// Part of their rate that they keep.
    kept: f64,
    /// Longest visit.
    slowest: Duration,
    /// Visits, but one of a hundred, beside a crowd that takes all it can get.
    crowded: Duration,
}

impl Options {
    fn over(&self) -> Duration {
        Duration::from_secs(if self.quick { 2 } else { self.seconds })
    }

    fn bounds(&self) -> Bounds {
        match self.quick {
            true => Bounds {
                kept: 0.4,
                slowest: Duration::from_secs(5),
                crowded: Duration::from_secs(2),
            },
            false => Bounds {
                kept: 0.98,
                slowest: Duration::from_secs(1),
                crowded: Duration::from_millis(100),
            },
        }
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    crate::block_on(each(options))
}

/// Way in which a script goes wrong, chosen by the first label of the server name.
struct Fault {
    name: &'static str,
    pace: Pace,
    /// Labels that the runs may have in the metrics.
    outcomes: &'static [&'static str],
    /// Alerts that its clients may get.
    alerts: &'static [&'static str],
}

/// How the handshakes of a fault come.
#[derive(Clone, Copy)]
enum Pace {
    /// So many per second. What burns CPU time takes 20 ms each time.
    Rate(u32),
    /// So many clients of one network, each one handshake after the other.
    Crowd(u32),
}

/// Runs each fault beside the hosts that are measured.
async fn each(options: &Options) -> Result<()> {
    let setting = Setting::new(&options.sekisho).await?;
    let (over, bounds) = (options.over(), options.bounds());
    let hot = setting.hot(over);
    // Memory that the server allocates for its first clients stays with it.
    visit(&setting.neighbour()?, &hot, over).await?;
    let quiet = visit(&setting.neighbour()?, &hot, over).await?;
    ensure!(quiet.failed == 0, "hosts fail without a fault: {quiet:?}");
    setting.hang();
    // Redis's connection is given up meanwhile.
    visit(&setting.neighbour()?, &hot, over).await?;
    let before = Memory::read(setting.server.pid()?)?.rss;
    let mut table = Table::new("Cached hosts beside scripts that go wrong");
    let (mut runs, mut kept, mut crowded) = (0.0, f64::INFINITY, 0);
    let mut complaints = Vec::new();
    let mut counts = Vec::new();
    for (net, fault) in (70..).zip(&FAULTS) {
        let counted = setting.runs(fault.outcomes).await?;
        let clients = setting.client(net)?;
        let neighbour = setting.neighbour()?;
        let is_crowd = matches!(fault.pace, Pace::Crowd(_));
        let beside = async {
            match is_crowd {
                false => visit(&neighbour, &hot, over).await,
                // Visits that come later meet no crowd.
                true => visit_within(&neighbour, &hot, over).await,
            }
        };
        let (told, beside) = tokio::join!(attack(&clients, fault, over), beside);
        let beside = beside?;
        let counted = setting.runs(fault.outcomes).await? - counted;
        let (p50, p99) = (beside.operation_us.p50, beside.operation_us.p99);
        println!(
            "{:<9} {told:?}; hot hosts p50 {p50} p99 {p99} µs",
            fault.name
        );
        let broken = judge(fault, (&told, counted), (&quiet, &beside), &bounds);
        let figures = vec![
            ("hot hosts p99 µs", p99 as f64),
            ("hot hosts p50 µs", p50 as f64),
            ("hot hosts per second", beside.per_second),
            ("runs", counted),
        ];
        table.add(fault.name, &figures, broken.first().map(String::as_str));
        complaints.extend(broken);
        runs += counted;
        match is_crowd {
            false => kept = f64::min(kept, beside.per_second / quiet.per_second),
            true => crowded = crowded.max(p99),
        }
        counts.push(format!("{} {counted}", fault.name));
    }
    let stale = setting.cached("stale").await?;
    if stale == 0.0 {
        complaints.push("no host was served past its limit".to_owned());
    }
    let grown = Memory::read(setting.server.pid()?)?
        .rss
        .saturating_sub(before);
    if grown > MOST_GROWN {
        complaints.push(format!("memory grew by {grown} bytes, {MOST_GROWN} may be"));
    }
    setting.end().await?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    table.write(options.json.as_deref())?;
    let (grown, kept) = (grown as f64 / f64::from(1 << 20), 100.0 * kept);
    let counts = counts.join(", ");
    println!(
        "hook-faults: {} faults, {runs} runs ({counts}), hot hosts keep {kept:.1} % of their \
         rate, p99 {crowded} µs beside crowds, {stale} past their limit, memory \
         +{grown:.1} MiB, {} broken",
        FAULTS.len(),
        complaints.len()
    );
    ensure!(complaints.is_empty(), "a script has hurt others");
    Ok(())
}

/// Says what a fault has broken.
fn judge(
    fault: &Fault,
    (told, counted): (&Told, f64),
    (quiet, beside): (&Outcome, &Outcome),
    bounds: &Bounds,
) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut complain = |what: String| complaints.push(format!("{}: {what}", fault.name));
    if beside.failed > 0 {
        complain(format!("hot hosts failed: {:?}", beside.errors));
    }
    let is_crowd = matches!(fault.pace, Pace::Crowd(_));
    if !is_crowd && beside.per_second < bounds.kept * quiet.per_second {
        let (kept, before) = (beside.per_second, quiet.per_second);
        complain(format!(
            "hot hosts fell from {before:.1} to {kept:.1} per second"
        ));
    }
    if Duration::from_micros(beside.operation_us.max) > bounds.slowest {
        complain(format!("a hot host took {} µs", beside.operation_us.max));
    }
    if is_crowd && Duration::from_micros(beside.operation_us.p99) > bounds.crowded {
        complain(format!("hot hosts' p99 is {} µs", beside.operation_us.p99));
    }
    for (answer, count) in told {
        if !fault.alerts.iter().any(|alert| answer.contains(alert)) {
            complain(format!("{count} clients got {answer}"));
        }
    }
    let sent: usize = told.values().sum();
    if counted < LEAST_COUNTED * sent as f64 {
        let outcomes = fault.outcomes.join(" or ");
        complain(format!(
            "{counted} of {sent} runs were counted as {outcomes}"
        ));
    }
    complaints
}

const FAULTS: [Fault; 9] = [
    fault("loop", 4, &["cpu"]),
    fault("pattern", 4, &["cpu"]),
    fault("bomb", 4, &["memory"]),
    fault("recursion", 20, &["error"]),
    fault("error", 100, &["error"]),
    // The connection is given up within two seconds: later runs meet an error at once.
    fault("hang", 20, &["timeout", "error"]),
    Fault {
        name: "random",
        pace: Pace::Rate(200),
        outcomes: &["refuse"],
        // A client's network has a budget for names that lead to nothing.
        alerts: &["UnrecognisedName", "InternalError"],
    },
    // Two of these fill a state: the next one's network loses those that wait.
    crowd(
        "hold",
        8,
        &["broken_off", "timeout", "memory", "overloaded"],
    ),
    crowd("burn", 100, &["cpu", "overloaded"]),
];

const fn crowd(name: &'static str, clients: u32, outcomes: &'static [&'static str]) -> Fault {
    Fault {
        pace: Pace::Crowd(clients),
        ..fault(name, 0, outcomes)
    }
}

const fn fault(name: &'static str, rate: u32, outcomes: &'static [&'static str]) -> Fault {
    Fault {
        name,
        pace: Pace::Rate(rate),
        outcomes,
        alerts: &["InternalError"],
    }
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Clients come from 127.70.0.0/16 and above. It takes a minute.

Example:
  sekisho-system-tests hook-faults --sekisho target/release/sekisho
";

/// Some runs may meet another bound first.
const LEAST_COUNTED: f64 = 0.5;
/// Luau states of both workers, each at most 16 MiB, and buffers.
const MOST_GROWN: u64 = 48 << 20;
