//! Lookups in PostgreSQL among millions of hosts while others write, without and under
//! an open snapshot, as that of a dump is.
//!
//! A snapshot keeps each old version of each row that is written. A lookup that reads
//! such versions gets slower for as long as the snapshot is open.

mod catalog;
mod traffic;

use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use self::catalog::Filled;
use self::traffic::{Rates, Window};

pub(crate) const EXAMPLES: &str = "\
Starts a PostgreSQL of its own, with fsync, and fills it: 10,000,000 hosts take some
8 GB and several minutes. Then the same load runs without and under a snapshot, in
turn. It fails if lookups under the snapshot have a p99 over 1.5 times as long, or if
a load did not reach four fifths of its rate.

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
    judge(&pairs, &options.rates)
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

/// Judges the mean of the pairs: a machine that changes its speed does so for both
/// windows of most pairs.
fn judge(pairs: &[Pair], rates: &Rates) -> Result<()> {
    let ratios = pairs
        .iter()
        .map(|[without, with]| with.p99() / without.p99());
    let ratio = ratios.sum::<f64>() / pairs.len() as f64;
    println!("p99 with a snapshot, of that without: {ratio:.2} times, {MOST} are allowed");
    for window in pairs.iter().flatten() {
        window.reached(rates)?;
    }
    ensure!(
        ratio <= MOST,
        "an open snapshot makes lookups {ratio:.2} times as slow, {MOST} times are allowed"
    );
    Ok(())
}

/// Hosts that share a credential: 100,000 of them for 10,000,000 hosts.
const HOSTS_PER_CREDENTIAL: u64 = 100;
/// Longest p99 under a snapshot, by that without.
const MOST: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_windows_of_a_pair_are_measured() {
        let options = Options {
            hosts: 1000,
            minutes: 0.05,
            pairs: 1,
            rates: Rates::default(),
        };
        let runtime = traffic::runtime().unwrap();
        let pairs = runtime.block_on(measure(&options)).unwrap();
        let [without, with] = &pairs[0];
        assert!(without.p99() > 0.0 && with.p99() > 0.0);
    }

    #[test]
    fn a_ratio_over_the_bound_fails() {
        let rates = Rates::default();
        let window = |us| Window::of(&rates, Duration::from_secs(1), us);
        judge(&[[window(100), window(140)]], &rates).unwrap();
        assert!(judge(&[[window(100), window(160)]], &rates).is_err());
        // The other pair makes up for one.
        let pairs = [[window(100), window(160)], [window(100), window(110)]];
        judge(&pairs, &rates).unwrap();
        let twice = Rates {
            announced: 2 * rates.announced,
            ..rates
        };
        assert!(judge(&[[window(100), window(100)]], &twice).is_err());
    }
}
