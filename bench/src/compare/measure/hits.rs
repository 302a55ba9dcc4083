//! Hits of the memory cache, measured and simulated.

use anyhow::{Result, bail, ensure};
use tokio::task::spawn_blocking;

use super::figures::operation_figures;
use super::{Load, Sample, Subject, Work, mib, walk};
use crate::compare::meter::Meter;
use crate::compare::pages;
use crate::compare::rows::{Asked, Setup};
use crate::compare::simulation::{RECORD, Visitors, bytes};
use sekisho_bench::metrics::Metrics;

impl Subject<'_> {
    pub(super) async fn hits(&mut self) -> Result<Sample> {
        let Asked::Zipf(exponent) = self.case.asked else {
            bail!("hits are of visitors by Zipf's law");
        };
        let hosts = self.row.hosts.count(self.place.options.is_short());
        let visitors = Visitors { hosts, exponent };
        match self.case.setup {
            Setup::Sekisho { memory, .. } => self.measured_hits(visitors, bytes(memory)?).await,
            Setup::Cache(None) => {
                let found = spawn_blocking(move || visitors.memory_for(SHARES)).await?;
                let found = found.map(|bytes| mib(bytes as u64));
                Ok(MEMORY_FOR.into_iter().zip(found).collect())
            }
            Setup::Cache(Some(memory)) => {
                let memory = bytes(memory)?;
                let simulated = spawn_blocking(move || visitors.hits(memory)).await?;
                Ok(vec![(SIMULATED, simulated), (MEMORY, mib(memory as u64))])
            }
            _ => bail!("only sekisho has this cache"),
        }
    }

    /// Measures the hits of a server and the CPU time of its handshakes. The cache begins with
    /// the most popular hosts, as that of the simulation does.
    async fn measured_hits(&mut self, visitors: Visitors, memory: usize) -> Result<Sample> {
        let simulated = spawn_blocking(move || visitors.hits(memory)).await?;
        let server = self.launch(None).await?;
        let held = visitors.held(memory);
        let fill = Load {
            hosts: held,
            start: 0,
            ..self.load(walk(held as u64), 0)
        };
        pages::read(self.place, self.row, self.case, self.binary, &fill)?;
        self.run(&fill, &server).await?;
        let work = Work::Popular {
            count: self.effort(COUNT),
            exponent: visitors.exponent,
        };
        let load = self.load(work, WARM_UP * held as u64);
        let mut client = self.client(&load, &server).await?;
        let before = server.metrics().await?;
        let meter = Meter::start(server.pid(), self.place.support)?;
        let outcome = client.go().await?;
        let used = meter.stop()?;
        let after = server.metrics().await?;
        client.finish().await?;
        let measured = share(&before, &after, outcome.handshakes)?;
        let weight = after.record_weight()?;
        check(measured, simulated, weight)?;
        let mut figures = vec![(MEASURED, measured), (SIMULATED, simulated)];
        figures.extend(operation_figures(&outcome, &used, server.memory()?));
        figures.extend([(MEMORY, mib(memory as u64)), (WEIGHT, weight)]);
        Ok(figures)
    }
}

/// Returns the percentage of lookups between two readings that the memory cache answered.
///
/// # Errors
/// If there was not one lookup for each handshake: hits would then be of something else.
fn share(before: &Metrics, after: &Metrics, handshakes: u64) -> Result<f64> {
    let (before, after) = (before.cache_lookups()?, after.cache_lookups()?);
    let lookups = after.1 - before.1;
    let difference = (lookups - handshakes as f64).abs();
    ensure!(
        difference <= 0.01 * handshakes as f64,
        "the server counted {lookups} lookups for {handshakes} handshakes"
    );
    Ok(100.0 * (after.0 - before.0) / lookups)
}

/// Compares the simulation with the server: percentages of hits, and bytes of a host.
fn check(measured: f64, simulated: f64, weight: f64) -> Result<()> {
    ensure!(
        (measured - simulated).abs() <= MOST_APART,
        "{measured:.1} % of hits, and {simulated:.1} % simulated"
    );
    let apart = (weight / RECORD as f64 - 1.0).abs();
    ensure!(
        apart <= WEIGHT_APART,
        "a host weighs {weight:.0} bytes, and {RECORD} in the simulation"
    );
    Ok(())
}

const MEASURED: &str = "% of hits";
const SIMULATED: &str = "% of hits, simulated";
const MEMORY: &str = "[cache] memory MiB";
const WEIGHT: &str = "bytes of a host";
const SHARES: [f64; 3] = [90.0, 95.0, 99.0];
const MEMORY_FOR: [&str; 3] = [
    "MiB for 90 % of hits",
    "MiB for 95 % of hits",
    "MiB for 99 % of hits",
];
/// Handshakes that tell the percentage within half a point, also with a fifth of them.
const COUNT: u64 = 50_000;
/// Handshakes before those that count, for each host that the cache holds: a third of those
/// of the simulation, for the sake of time. The hits are within one point of what they end at.
const WARM_UP: u64 = 8;
/// Percentage points by which the simulation may differ.
const MOST_APART: f64 = 2.0;
const WEIGHT_APART: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulation_that_does_not_hold_fails() {
        let weight = RECORD as f64;
        assert!(check(50.0, 51.9, weight).is_ok() && check(50.0, 48.1, weight).is_ok());
        assert!(check(50.0, 52.1, weight).is_err() && check(50.0, 47.9, weight).is_err());
        assert!(check(50.0, 50.0, weight * 1.03).is_err());
        assert!(check(50.0, 50.0, weight * 0.97).is_err());
    }

    #[test]
    fn figures_are_named_after_their_shares() {
        for (share, name) in SHARES.iter().zip(MEMORY_FOR) {
            assert!(name.contains(&format!(" {share} %")), "{name}");
        }
    }
}
