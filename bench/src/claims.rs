//! Claims of due lineages among millions, in SQLite and in PostgreSQL.
//!
//! Works as servers that renew do: one claims what is due while another still has
//! its claims, then stores what it did. Only the claims are timed.

mod catalogs;
mod fill;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use sekisho_certs::seal::Sealer;
use sekisho_certs::store::Write;
use sekisho_certs::{Able, Claim, Clock, Fence, LineageName, ToClaim};
use tokio::runtime;

use self::catalogs::Catalogs;

pub(crate) const EXAMPLES: &str = "\
Starts a PostgreSQL of its own, with fsync, and makes a SQLite file in the
temporary folder. It fails if the median of a catalog is over 10 ms. The last
lines have the figures.

Examples:
  sekisho-bench claims
  sekisho-bench claims --lineages 200000 --repeats 100";

/// How many lineages, and how often they are claimed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Lineages in each catalog
    #[arg(long, value_name = "N", default_value_t = 2_000_000)]
    lineages: usize,

    /// Claims that are timed, of 1,000 lineages each
    #[arg(long, value_name = "N", default_value_t = 40)]
    repeats: usize,
}

impl Options {
    /// Returns how many lineages are due: 1,000 more than are claimed.
    fn due(&self) -> usize {
        (self.repeats + 1) * SIZE
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(
        options.repeats > 0 && options.due() <= options.lineages,
        "{} claims need {} lineages or more",
        options.repeats,
        options.due()
    );
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let all = runtime.block_on(measure(options))?;
    println!("claims of {SIZE} of {} lineages", options.lineages);
    for figures in &all {
        println!("{}", figures.line());
    }
    all.iter().try_for_each(Figures::judge)
}

async fn measure(options: &Options) -> Result<Vec<Figures>> {
    let catalogs = Catalogs::start()?;
    let mut all = Vec::new();
    for (name, catalog) in catalogs.all() {
        let sealer = Sealer::create(catalog, catalogs::ring()).await?;
        fill::fill(name, &sealer, options.lineages, options.due()).await?;
        catalogs.vacuum(name);
        let begun = Instant::now();
        let counted = sealer.catalog().count_lineages().await?;
        let took = begun.elapsed().as_millis();
        // PostgreSQL estimates many.
        let off = counted.abs_diff(options.lineages as u64);
        ensure!(off <= options.lineages as u64 / 10, "{name} has {counted}");
        println!("{name}: counted {counted} lineages in {took} ms");
        let vacuum = || catalogs.vacuum(name);
        let times = times(&sealer, options.repeats, vacuum).await?;
        all.push(Figures { name, times });
    }
    Ok(all)
}

/// Claims so many times. Two holders take turns: each stores what it claimed after
/// the other has claimed. `vacuum` stands for the time between two claims.
async fn times(sealer: &Sealer, repeats: usize, vacuum: impl Fn()) -> Result<Vec<Duration>> {
    let mut seen = HashSet::new();
    let mut before = Vec::new();
    let mut times = Vec::with_capacity(repeats);
    for repeat in 0..repeats {
        let holder = HOLDERS[repeat % 2];
        // Hosts of one name each, which any server can get.
        let due = ToClaim::Due {
            limit: SIZE,
            able: Able {
                without_dns: true,
                ..Able::default()
            },
        };
        let begun = Instant::now();
        let claimed = sealer.catalog().claim(due, holder, TTL);
        let claimed = claimed.await?;
        times.push(begun.elapsed());
        ensure!(claimed.len() == SIZE, "{} were claimed", claimed.len());
        for (name, _) in &claimed {
            ensure!(seen.insert(name.clone()), "{name} was claimed twice");
        }
        finish(sealer, std::mem::replace(&mut before, claimed)).await?;
        vacuum();
    }
    times.sort_unstable();
    Ok(times)
}

/// Writes these lineages as renewed, which ends their claims.
async fn finish(sealer: &Sealer, claimed: Vec<(LineageName, Claim)>) -> Result<()> {
    let (names, claims): (Vec<_>, Vec<_>) = claimed.into_iter().unzip();
    let epoch = claims.first().map(|claim| claim.epoch);
    let mut writes = Vec::with_capacity(names.len());
    for stored in sealer.catalog().lineages(&names).await? {
        let mut lineage = sealer.open_lineage(stored).await?;
        lineage.due = Some(Clock::System.now() + fill::INTERVAL);
        lineage.claim = None;
        writes.push(Write::PutLineage(
            lineage,
            epoch.map_or(Fence::Any, Fence::Epoch),
        ));
    }
    sealer.write(writes).await?;
    Ok(())
}

/// Times of a catalog's claims, shortest first.
struct Figures {
    name: &'static str,
    times: Vec<Duration>,
}

impl Figures {
    fn line(&self) -> String {
        let ms = |percent| self.percentile(percent).as_secs_f64() * 1000.0;
        let (name, median, p90, longest) = (self.name, ms(50), ms(90), ms(100));
        format!("{name:<10} median {median:>6.1} ms   p90 {p90:>6.1} ms   max {longest:>6.1} ms")
    }

    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.times.len() * percent).div_ceil(100);
        self.times
            .get(rank.saturating_sub(1))
            .copied()
            .unwrap_or_default()
    }

    fn judge(&self) -> Result<()> {
        let median = self.percentile(50);
        ensure!(
            median <= MOST,
            "{}: the median is {median:.1?}, {MOST:?} are allowed",
            self.name
        );
        Ok(())
    }
}

/// Lineages of one claim.
const SIZE: usize = 1000;
const TTL: Duration = Duration::from_secs(600);
const HOLDERS: [&str; 2] = ["one", "other"];
/// Longest median.
const MOST: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_catalogs_are_measured() {
        let options = Options {
            lineages: 5_000,
            repeats: 3,
        };
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let all = runtime.unwrap().block_on(measure(&options)).unwrap();
        let names: Vec<_> = all.iter().map(|one| one.name).collect();
        assert_eq!(names, ["sqlite", "postgres"]);
        assert!(all.iter().all(|one| one.times.len() == 3));
    }

    #[test]
    fn a_median_over_the_bound_fails() {
        let figures = |ms: &[u64]| Figures {
            name: "sqlite",
            times: ms.iter().copied().map(Duration::from_millis).collect(),
        };
        figures(&[1, 10, 99]).judge().unwrap();
        assert!(figures(&[1, 11, 12]).judge().is_err());
        let line = figures(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).line();
        assert!(
            line.contains("median    5.0 ms") && line.contains("p90    9.0 ms"),
            "{line}"
        );
        let few = Options {
            lineages: 3_999,
            repeats: 3,
        };
        assert!(run(&few).is_err());
    }
}
