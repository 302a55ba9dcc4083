//! Import of very many pairs from an archive, into SQLite and into PostgreSQL, while two
//! servers on the store are visited and a host changes; then the same again.

mod archive;
mod document;
mod field;
mod filters;
mod rest;
mod visits;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::runtime;
use tokio::task::LocalSet;
use tokio::time::sleep;

use self::field::{Field, Imported};
use self::rest::Rest;
use self::visits::{Beside, HOT, HOT_HOSTS, change};

pub(crate) const EXAMPLES: &str = "\
Makes an archive below --dir, which a later run takes again: 100,000 pairs take a minute and
0.5 GB. Starts a PostgreSQL of its own, with fsync, and makes a SQLite file below target. It
fails past a bound: 3,000 pairs a second, 15,000 when nothing is new, which must write nothing;
128 MiB, also for an acme.json of 400 MB that is cut off; p99 of 100 hot hosts 1.5 times as long
as before or 5 ms longer; 1 s until both servers show a change; 50 ms for a page of a list; with
--rest, 1 % of a core for a watcher whose source does not change, and 2 s until a renewed pair is
served. The last line has the lower rate of both databases and the higher memory.

Examples:
  sekisho-bench import-million
  sekisho-bench import-million --pairs 1000000 --filters 2000000
  sekisho-bench import-million --rest 2
  sekisho-bench import-million --pairs 10000 --no-rates --sekisho target/debug/sekisho";

/// How many pairs, and of what.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Pairs of the archive
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pairs: usize,

    /// Read pages of lists among so many further hosts, too
    #[arg(long, value_name = "N", default_value_t = 0)]
    filters: usize,

    /// Watch a folder of the pairs at rest for so many minutes, and renew one, too
    #[arg(long, value_name = "MINUTES", default_value_t = 0)]
    rest: u32,

    /// Folder of archives
    #[arg(long, value_name = "DIR", default_value = "target/import-million")]
    dir: PathBuf,

    /// Judge neither rates nor latency: for an unoptimized build
    #[arg(long)]
    no_rates: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(options.pairs > 0, "--pairs takes 1 or more");
    ensure!(
        options.filters == 0 || options.filters >= LEAST_FILTERED,
        "--filters takes {LEAST_FILTERED} or more: each filter must fill a page"
    );
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let all = LocalSet::new().block_on(&runtime, measure(options))?;
    let mut broken = Vec::new();
    for figures in &all {
        broken.extend(figures.broken(!options.no_rates));
    }
    for bound in &broken {
        println!("bound: {bound}");
    }
    println!("{}", last_line(&all));
    ensure!(broken.is_empty(), "{} bounds were not kept", broken.len());
    Ok(())
}

async fn measure(options: &Options) -> Result<Vec<Figures>> {
    std::fs::create_dir_all(&options.dir)?;
    let hot = archive::make(&options.dir, HOT, HOT_HOSTS)?;
    let pairs = archive::make(&options.dir, archive::PAIRS, options.pairs)?;
    let mut all = Vec::new();
    for name in ["sqlite", "postgres"] {
        let field = match name {
            "sqlite" => Field::sqlite(&options.sekisho)?,
            _ => Field::postgres(&options.sekisho)?,
        };
        field.import(&hot, &[]).await?;
        field.serve().await?;
        let mut figures = import(name, &field, &pairs, options.pairs as u64).await?;
        if options.filters > 0 {
            let sealer = field.sealer().await?;
            figures.page = filters::measure(name, &sealer, options.filters).await?;
        }
        // Reading is the same for both databases, and slow if unoptimized.
        if !options.no_rates && all.is_empty() {
            let memory = document::measure(&field, &options.dir).await?;
            figures.again.memory = figures.again.memory.max(memory);
        }
        if options.rest > 0 && all.is_empty() {
            let time = Duration::from_mins(options.rest.into());
            figures.rest = rest::measure(&field, &options.dir, &pairs, time).await?;
            println!("{}", figures.line_of_rest());
        }
        println!("{}", figures.line());
        all.push(figures);
    }
    Ok(all)
}

/// Imports the archive beside visits and changes, and twice when nothing is new.
async fn import(name: &'static str, field: &Field, archive: &Path, pairs: u64) -> Result<Figures> {
    let before = Beside::begin(field)?;
    sleep(BEFORE).await;
    let before = before.end().await?;
    let beside = Beside::begin(field)?;
    let end_told = beside.end_told();
    let importing = async {
        let first = field.import(archive, &[]).await;
        // The host changes as long as the import runs.
        end_told.set(true);
        first
    };
    let (first, changes) = tokio::join!(importing, change(field, &end_told));
    let (first, change, during) = (first?, changes?, beside.end().await?);
    ensure!(
        first.imported == pairs,
        "{name}: {} of {pairs} were imported",
        first.imported
    );
    let catalog = field.catalog()?;
    let head = catalog.head().await?;
    let mut again = field.import(archive, &[]).await?;
    ensure!(
        again.skipped == pairs,
        "{name}: {} of {pairs} were skipped the second time",
        again.skipped
    );
    // The memory of --prune and --report counts, too.
    let pruned = field.import(archive, &PRUNE).await?;
    again.memory = again.memory.max(pruned.memory);
    Ok(Figures {
        name,
        pairs,
        has_written: catalog.head().await? != head,
        first,
        again,
        p99_before: Duration::from_micros(before.operation_us.p99),
        p99_during: Duration::from_micros(during.operation_us.p99),
        change,
        page: Duration::ZERO,
        rest: Rest::default(),
    })
}

/// Figures of a database.
struct Figures {
    name: &'static str,
    pairs: u64,
    first: Imported,
    again: Imported,
    /// True if the second import wrote anything.
    has_written: bool,
    p99_before: Duration,
    p99_during: Duration,
    /// Longest time until both servers showed a change.
    change: Duration,
    /// Slowest page of a list; zero if none was read.
    page: Duration,
    /// Watch of a folder; zeros if there was none.
    rest: Rest,
}

impl Figures {
    fn line(&self) -> String {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        let wrote = if self.has_written {
            "WROTE"
        } else {
            "no write"
        };
        format!(
            "{}: {} pairs, {:.0} a second, {} MiB; again {:.0} a second, {} MiB, {wrote}; hot \
             hosts' p99 {:.1} ms, during the import {:.1} ms; changes shown within {:.0} ms",
            self.name,
            self.pairs,
            self.rate(&self.first),
            mib(self.first.memory),
            self.rate(&self.again),
            mib(self.again.memory),
            ms(self.p99_before),
            ms(self.p99_during),
            ms(self.change),
        )
    }

    fn line_of_rest(&self) -> String {
        let (
            name,
            Rest {
                core_percent,
                renewal,
            },
        ) = (self.name, self.rest);
        format!(
            "{name}: {} pairs at rest take {core_percent:.2} % of a core; a renewed one was \
             served after {renewal:.1?}",
            self.pairs
        )
    }

    fn rate(&self, of: &Imported) -> f64 {
        self.pairs as f64 / of.took.as_secs_f64().max(1e-9)
    }

    fn memory(&self) -> u64 {
        self.first.memory.max(self.again.memory)
    }

    /// Names the bounds that were not kept; those of time only if they count.
    fn broken(&self, with_rates: bool) -> Vec<String> {
        let (first, again) = (self.rate(&self.first), self.rate(&self.again));
        let most = (self.p99_before * 3 / 2).max(self.p99_before + MORE);
        let (during, change, page) = (self.p99_during, self.change, self.page);
        let memory = mib(self.memory());
        let Rest {
            core_percent: rest,
            renewal,
        } = self.rest;
        let bounds = [
            (first < RATE, true, format!("{first:.0} a second of {RATE}")),
            (
                again < AGAIN,
                true,
                format!("again {again:.0} a second of {AGAIN}"),
            ),
            (
                self.has_written,
                false,
                "the second import wrote".to_owned(),
            ),
            (memory > MEMORY, false, format!("{memory} MiB of {MEMORY}")),
            (
                during > most,
                true,
                format!("p99 {during:.1?} of {most:.1?}"),
            ),
            (
                change > CHANGE,
                true,
                format!("a change took {change:.1?} of {CHANGE:?}"),
            ),
            (
                page > PAGE,
                true,
                format!("a page took {page:.1?} of {PAGE:?}"),
            ),
            (
                rest > REST,
                true,
                format!("{rest:.2} % of a core at rest, of {REST} %"),
            ),
            (
                renewal > RENEWAL,
                true,
                format!("a renewal took {renewal:.1?} of {RENEWAL:?}"),
            ),
        ];
        let broken = bounds.into_iter();
        let broken = broken.filter(|(is_past, is_time, _)| *is_past && (with_rates || !is_time));
        let name = self.name;
        broken
            .map(|(.., bound)| format!("{name}: {bound}"))
            .collect()
    }
}

/// Returns the line with the worst of all databases.
fn last_line(all: &[Figures]) -> String {
    let pairs = all.first().map_or(0, |one| one.pairs);
    let rates = all.iter().map(|one| one.rate(&one.first));
    let rate = rates.fold(f64::INFINITY, f64::min);
    let memory = all.iter().map(Figures::memory).max().unwrap_or_default();
    format!("{pairs} pairs, {rate:.0} a second, {} MiB", mib(memory))
}

/// Rounds up to whole MiB.
fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Options of a third import, which removes nothing.
const PRUNE: [&str; 5] = ["--prune", "--origin", "archive", "--report", "report"];
/// Pairs a second, at least.
const RATE: f64 = 3000.0;
/// Pairs a second when nothing is new.
const AGAIN: f64 = 15_000.0;
/// MiB of the import at most.
const MEMORY: u64 = 128;
/// Time by which the p99 may grow, if that is more than by half.
const MORE: Duration = Duration::from_millis(5);
const CHANGE: Duration = Duration::from_secs(1);
const PAGE: Duration = Duration::from_millis(50);
/// Percentage of a core that a watcher of 100,000 pairs may use while nothing changes.
const REST: f64 = 1.0;
/// Time from the last write of a renewed pair until it is served.
const RENEWAL: Duration = Duration::from_secs(2);
/// Hosts of which a thousand tenants have a page each.
const LEAST_FILTERED: usize = 100_000;
/// Time of visits before the import.
const BEFORE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let imported = |took, imported, skipped| Imported {
            took,
            memory: 100 << 20,
            imported,
            skipped,
        };
        Figures {
            name: "sqlite",
            pairs: 15_000,
            first: imported(Duration::from_secs(5), 15_000, 0),
            again: imported(Duration::from_secs(1), 0, 15_000),
            has_written: false,
            p99_before: Duration::from_millis(2),
            p99_during: Duration::from_millis(7),
            change: Duration::from_secs(1),
            page: Duration::from_millis(50),
            rest: Rest {
                core_percent: 1.0,
                renewal: Duration::from_secs(2),
            },
        }
    }

    /// Lets a figure pass its bound.
    type Pass = fn(&mut Figures);

    #[test]
    fn each_bound_is_judged() {
        assert!(figures().broken(true).is_empty());
        let passes: [(bool, Pass); 9] = [
            (true, |one| one.first.took += Duration::from_millis(1)),
            (true, |one| one.again.took += Duration::from_millis(1)),
            (false, |one| one.has_written = true),
            (false, |one| one.again.memory = (128 << 20) + 1),
            (true, |one| one.p99_during += Duration::from_millis(1)),
            (true, |one| one.change += Duration::from_millis(1)),
            (true, |one| one.page += Duration::from_millis(1)),
            (true, |one| one.rest.core_percent += 0.01),
            (true, |one| one.rest.renewal += Duration::from_millis(1)),
        ];
        for (is_time, pass) in passes {
            let mut figures = figures();
            pass(&mut figures);
            let broken = figures.broken(true);
            assert_eq!(broken.len(), 1, "{broken:?}");
            assert_eq!(figures.broken(false).is_empty(), is_time, "{broken:?}");
        }
    }

    #[test]
    fn the_last_line_has_the_worst() {
        let mut slow = figures();
        slow.first.took *= 2;
        slow.first.memory = 1;
        let line = last_line(&[figures(), slow]);
        assert_eq!(line, "15000 pairs, 1500 a second, 100 MiB");
    }
}
