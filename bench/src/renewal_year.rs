//! A year of renewals: the schedule and the quotas of the product, simulated.
//!
//! Nothing is ordered from anybody. Each hour takes the hosts that are due, most
//! urgent first, as far as the servers and the CA's limits allow, and puts them
//! back where [`sekisho_issuance::schedule`] says. In the year fall 50,000 new
//! names of one tenant at once, 50,000 certificates taken over from another server
//! past their time for renewal, and a CA that is out of reach for 24 hours.

mod figures;
mod host;
mod picture;
mod year;

use std::path::PathBuf;
use std::{fs, thread};

use anyhow::{Context, Result, anyhow, ensure};
use clap::Args;
use sekisho_bench::table::Table;
use sekisho_issuance::quota::{Limit, Quotas};
use sekisho_issuance::schedule::ari_pause;

use self::figures::Figures;
use self::year::Year;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sekisho-bench renewal-year --picture docs/renewal-year.svg
  sekisho-bench renewal-year --hosts 200000";

/// How many hosts, and where the picture goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Hosts at the year's beginning, each with a certificate of its own
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u32).range(1_000..=5_000_000))]
    hosts: u32,

    /// Write orders per hour over the year as SVG into this file
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,

    /// Write the result as JSON into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Assumptions of a simulated year.
#[derive(Clone, Debug)]
struct Scenario {
    title: &'static str,
    hosts: u32,
    /// Lifetime of certificates, in seconds.
    lifetime: i64,
    /// True if the CA suggests windows and exempts renewals in them.
    ari: bool,
    quotas: Quotas,
    /// Orders per hour that the servers make at most.
    most: usize,
    /// Names and certificates of each of the two imports.
    imported: u32,
}

/// A simulated year.
struct Outcome {
    scenario: Scenario,
    figures: Figures,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let mut years = Vec::new();
    println!("{}", HEADER.join("\n"));
    for (title, lifetime) in LIFETIMES {
        // Both at once: two cores halve the time.
        let both = thread::scope(|scope| {
            let simulate = |ari| simulate(Scenario::new(title, options.hosts, lifetime, ari));
            let years = [true, false].map(|ari| scope.spawn(move || simulate(ari)));
            years.map(|year| year.join().map_err(|_| anyhow!("a simulation panicked")))
        });
        for year in both {
            let year = year?;
            println!("{}", year.row());
            years.push(year);
        }
    }
    if let Some(path) = &options.picture {
        let svg = picture::draw(options.hosts, &years);
        fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    table(&years).write(options.json.as_deref())?;
    for year in &years {
        let Scenario { title, ari, .. } = year.scenario;
        year.judge()
            .with_context(|| format!("{title}, ARI {ari}"))?;
    }
    summarize(options.hosts, &years);
    Ok(())
}

fn table(years: &[Outcome]) -> Table {
    let mut table = Table::new("A year of renewals, simulated");
    for year in years {
        let Outcome { scenario, figures } = year;
        let ari = if scenario.ari { "with" } else { "without" };
        let label = format!("certificates of {}, {ari} ARI", scenario.title);
        let orders = |percent| f64::from(figures.percentile(percent));
        let shown = vec![
            ("expired", figures.expired as f64),
            ("orders per hour, p50", orders(50)),
            ("orders per hour, p99", orders(99)),
            ("orders per hour, most", orders(100)),
            ("least % of a lifetime left", 100.0 * figures.least_left),
        ];
        let error = year.judge().err().map(|error| format!("{error:#}"));
        table.add(&label, &shown, error.as_deref());
    }
    table
}

fn simulate(scenario: Scenario) -> Outcome {
    let figures = Year::new(scenario.clone()).run();
    Outcome { scenario, figures }
}

impl Scenario {
    fn new(title: &'static str, hosts: u32, lifetime: i64, ari: bool) -> Self {
        let quotas = match ari {
            true => Quotas::letsencrypt(),
            false => Quotas {
                orders: Limit::new(needed(hosts, lifetime), 3 * HOUR as u32),
                ..Quotas::default()
            },
        };
        Self {
            title,
            hosts,
            lifetime,
            ari,
            quotas,
            most: (4 * mean(hosts, lifetime, ari)).max(1_000) as usize,
            // 50,000 of 2,000,000.
            imported: hosts / 40,
        }
    }

    /// Returns the greatest age after years without incidents, in seconds: with
    /// ARI, no window of the CA has begun.
    fn oldest(&self) -> i64 {
        match self.ari {
            true => host::earliest(self.lifetime) - self.lifetime / 100,
            false => interval(self.lifetime, false),
        }
    }
}

/// Returns the limit per 3 hours that a CA without exemptions must grant: the
/// mean, a tenth of the limit that stays for first certificates, and a tenth to
/// catch up with what an outage held up.
fn needed(hosts: u32, lifetime: i64) -> u32 {
    (3 * mean(hosts, lifetime, false) * 11 / 9 + 10) as u32
}

/// Returns the orders per hour in a year without incidents.
fn mean(hosts: u32, lifetime: i64, ari: bool) -> i64 {
    i64::from(hosts) * HOUR / interval(lifetime, ari)
}

/// Returns the mean seconds between two renewals. A CA's window ends as soon after
/// the earliest time as it begins before; the jitter of the product takes a third
/// of what remains then.
fn interval(lifetime: i64, ari: bool) -> i64 {
    let earliest = host::earliest(lifetime);
    let jitter = if ari { 0 } else { (lifetime - earliest) / 3 };
    earliest + jitter / 2
}

impl Outcome {
    /// Checks the bounds: nothing expires, nothing waits, no hour is crowded.
    fn judge(&self) -> Result<()> {
        let Self { scenario, figures } = self;
        let Figures {
            expired, left_over, ..
        } = figures;
        ensure!(*expired == 0, "{expired} certificates expired");
        ensure!(
            *left_over == 0,
            "{left_over} hosts still wait at the end of the year"
        );
        let mean = mean(scenario.hosts, scenario.lifetime, scenario.ari);
        // First certificates may take a whole bucket at once.
        for (percent, times) in [(99, 5), (100, 6)] {
            let orders = i64::from(figures.percentile(percent));
            let most = mean * times / 2 + 300;
            ensure!(
                orders <= most,
                "p{percent} is {orders} orders per hour, {most} are allowed at a mean of {mean}"
            );
        }
        let wait = figures
            .other_tenant
            .context("the other tenant's name has no certificate")?;
        ensure!(wait <= HOUR, "the other tenant's name waited {wait} s");
        Ok(())
    }

    fn row(&self) -> String {
        let Self { scenario, figures } = self;
        let title = scenario.title;
        let limit = match scenario.ari {
            true => "300".to_owned(),
            false => needed(scenario.hosts, scenario.lifetime).to_string(),
        };
        let mut row = format!("{title:<8} {:<4}", if scenario.ari { "yes" } else { "no" });
        let days = figures.bulk.unwrap_or(0) as f64 / DAY as f64;
        for cell in [
            limit,
            figures.percentile(50).to_string(),
            figures.percentile(99).to_string(),
            figures.percentile(100).to_string(),
            figures.failed.to_string(),
            format!("{:.1} %", figures.least_left * 100.0),
            format!("{days:.1}"),
            figures.expired.to_string(),
        ] {
            row.push_str(&format!("{cell:>10}"));
        }
        row
    }
}

fn summarize(hosts: u32, years: &[Outcome]) {
    let pause = ari_pause(u64::from(hosts), None) as f64 / HOUR as f64;
    println!("ARI: each of {hosts} certificates is asked for every {pause:.1} h");
    for Scenario {
        title, lifetime, ..
    } in years
        .iter()
        .map(|year| &year.scenario)
        .filter(|scenario| !scenario.ari)
    {
        let limit = needed(hosts, *lifetime);
        println!("{title}: without exemptions, the CA must allow {limit} orders per 3 h");
    }
    let expired: u64 = years.iter().map(|year| year.figures.expired).sum();
    println!(
        "renewal-year: {hosts} hosts, {} years, {expired} expired",
        years.len()
    );
}

const HEADER: [&str; 2] = [
    "                  limit       orders per hour            failed least time new names   expired",
    "certif.  ARI    per 3 h       p50       p99       max  attempts       left   in days",
];
/// Let's Encrypt's profiles `classic`, `tlsserver` and `shortlived`.
const LIFETIMES: [(&str, i64); 3] = [
    ("90 days", 90 * DAY),
    ("45 days", 45 * DAY),
    ("160 h", 160 * HOUR),
];
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_year_passes_and_a_limit_below_the_mean_does_not() {
        for (title, lifetime) in LIFETIMES {
            for ari in [true, false] {
                // With fewer hosts, what is allowed to be uneven hides what is not.
                simulate(Scenario::new(title, 20_000, lifetime, ari))
                    .judge()
                    .unwrap();
            }
        }
        let mut scenario = Scenario::new("90 days", 5_000, 90 * DAY, false);
        let two_thirds = 2 * mean(5_000, 90 * DAY, false);
        scenario.quotas.orders = Limit::new(two_thirds as u32, 3 * HOUR as u32);
        let year = simulate(scenario);
        assert!(year.judge().is_err(), "{}", year.row());
    }
}
