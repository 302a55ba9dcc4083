//! Lookups in PostgreSQL among millions of hosts while others write, without and under
//! an open snapshot, as that of a dump is.
//!
//! A snapshot keeps each old version of each row that is written. A lookup that reads
//! such versions gets slower for as long as the snapshot is open.

mod catalog;
mod traffic;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use sekisho_bench::table::Table;

use self::catalog::Filled;
use self::traffic::{Rates, Window};

pub(crate) const EXAMPLES: &str = "\
Starts a PostgreSQL of its own, with fsync, and fills it: 10,000,000 hosts take some
8 GB and several minutes. Then the same load runs without and under a snapshot, in
turn. It fails if lookups under the snapshot have a p99 over 1.5 times as long (--most),
or if a load did not reach four fifths of its rate.

Examples:
  sekisho-bench scale
  sekisho-bench scale --hosts 200000 --minutes 2";

/// How many hosts there are, and how long the snapshot is open.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Hosts, on a credential for each hundred
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    hosts: u64,

    /// Minutes for which each snapshot is open, and for which it is not
    #[arg(long, value_name = "N", default_value_t = 10.0)]
    minutes: f64,

    /// Pairs of windows, one without and one with a snapshot
    #[arg(long, value_name = "N", default_value_t = 2)]
    pairs: usize,

    /// Longest p99 under a snapshot, by that without: short windows differ by themselves
    #[arg(long, value_name = "TIMES", default_value_t = MOST)]
    most: f64,

    /// Write the result as JSON into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    #[command(flatten)]
    rates: Rates,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.pairs > 0, "--pairs takes 1 or more");
    ensure!(
        options.hosts >= HOSTS_PER_CREDENTIAL,
        "--hosts takes {HOSTS_PER_CREDENTIAL} or more"
    );
    let pairs = traffic::runtime()?.block_on(measure(options))?;
    println!("{} hosts, {} minutes", options.hosts, options.minutes);
    let judged = judge(&pairs, options);
    let error = judged.as_ref().err().map(|error| format!("{error:#}"));
    table(&pairs, error.as_deref()).write(options.json.as_deref())?;
    judged
}

/// Makes a case of each window. The last one stands for all and has the error.
fn table(pairs: &[Pair], error: Option<&str>) -> Table {
    let mut table = Table::new("Lookups in PostgreSQL while others write");
    for (number, windows) in (1..).zip(pairs) {
        for (window, kind) in windows.iter().zip(["without", "with"]) {
            let label = format!("pair {number}, {kind} a snapshot");
            table.add(&label, &window.figures(), None);
        }
    }
    let all = vec![("p99 with a snapshot, of that without", ratio(pairs))];
    table.add("all pairs", &all, error);
    table
}

/// Windows without and with a snapshot.
type Pair = [Window; 2];

async fn measure(options: &Options) -> Result<Vec<Pair>> {
    let filled = Filled::start(options.hosts).await?;
    let length = Duration::try_from_secs_f64(options.minutes * 60.0)?;
    let mut pairs = Vec::with_capacity(options.pairs);
    for pair in 1..=options.pairs {
        filled.vacuum();
        let without = traffic::run(&filled, &options.rates, length).await?;
        println!("pair {pair}, without: {}", without.line());
        filled.vacuum();
        let snapshot = filled.snapshot()?;
        let with = traffic::run(&filled, &options.rates, length).await?;
        snapshot.end()?;
        println!("pair {pair}, with:    {}", with.line());
        pairs.push([without, with]);
    }
    Ok(pairs)
}

fn judge(pairs: &[Pair], options: &Options) -> Result<()> {
    let (ratio, most) = (ratio(pairs), options.most);
    println!("p99 with a snapshot, of that without: {ratio:.2} times, {most} are allowed");
    for window in pairs.iter().flatten() {
        window.reached(&options.rates)?;
    }
    ensure!(
        ratio <= most,
        "an open snapshot makes lookups {ratio:.2} times as slow, {most} times are allowed"
    );
    Ok(())
}

/// Returns the mean of the pairs' ratios: a machine that changes its speed does so for both
/// windows of most pairs.
fn ratio(pairs: &[Pair]) -> f64 {
    let ratios = pairs
        .iter()
        .map(|[without, with]| with.p99() / without.p99());
    ratios.sum::<f64>() / pairs.len() as f64
}

/// Hosts that share a credential: 100,000 of them for 10,000,000 hosts.
const HOSTS_PER_CREDENTIAL: u64 = 100;
/// Longest p99 under a snapshot, by that without.
const MOST: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(rates: Rates) -> Options {
        Options {
            hosts: 1000,
            minutes: 0.05,
            pairs: 1,
            most: MOST,
            json: None,
            rates,
        }
    }

    #[test]
    fn both_windows_of_a_pair_are_measured() {
        let runtime = traffic::runtime().unwrap();
        let options = options(Rates::default());
        let pairs = runtime.block_on(measure(&options)).unwrap();
        let [without, with] = &pairs[0];
        assert!(without.p99() > 0.0 && with.p99() > 0.0);
    }

    #[test]
    fn a_ratio_over_the_bound_fails() {
        let rates = Rates::default();
        let window = |us| Window::of(&rates, Duration::from_secs(1), us);
        let mut usual = options(rates);
        judge(&[[window(100), window(140)]], &usual).unwrap();
        let slow = [[window(100), window(160)]];
        assert!(judge(&slow, &usual).is_err());
        usual.most = 2.0;
        judge(&slow, &usual).unwrap();
        usual.most = MOST;
        // The other pair makes up for one.
        let pairs = [[window(100), window(160)], [window(100), window(110)]];
        judge(&pairs, &usual).unwrap();
        let twice = Rates {
            announced: 2 * rates.announced,
            ..rates
        };
        assert!(judge(&[[window(100), window(100)]], &options(twice)).is_err());
    }

    #[test]
    fn the_table_has_each_window_and_the_error() {
        let window = |us| Window::of(&Rates::default(), Duration::from_secs(1), us);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("scale.json");
        let table = table(&[[window(100), window(300)]], Some("too slow"));
        table.write(Some(&file)).unwrap();
        let text = std::fs::read_to_string(file).unwrap();
        let row: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(row["cases"][1]["label"], "pair 1, with a snapshot");
        assert_eq!(row["cases"][1]["figures"][0]["median"], 0.3);
        assert_eq!(row["cases"][2]["figures"][0]["median"], 3.0);
        assert_eq!(row["cases"][2]["error"], "too slow");
    }
}
