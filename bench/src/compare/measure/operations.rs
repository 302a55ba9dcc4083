//! Work of a server per operation, and the rate.

use anyhow::{Result, ensure};

use super::beside::Beside;
use super::{Sample, Subject, mib};
use crate::compare::client::Work;
use crate::compare::meter::{Meter, Used};
use crate::compare::pages;
use crate::compare::rows::figure;
use sekisho_bench::accounting::Memory;
use sekisho_bench::load::Outcome;

impl Subject<'_> {
    /// Measures CPU time per operation. The server is kept for the next sample.
    pub(super) async fn operations(&mut self, work: Work, warmup: u64) -> Result<Sample> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch_filled().await?,
        };
        let load = self.load(work, warmup);
        pages::read(self.place, self.row, self.case, self.binary, &load)?;
        let mut client = self.client(&load, &server).await?;
        let beside = Beside::read(self.place, self.case.setup, &server).await?;
        let meter = Meter::start(server.pid(), self.place.support)?;
        let outcome = client.go().await?;
        let used = meter.stop()?;
        // A server that serves some connections to their end first leaves others nothing to count.
        ensure!(
            2 * outcome.operations >= load.operations(),
            "only {} of {} operations came after the warm-up of all connections",
            outcome.operations,
            load.operations()
        );
        let beside = beside
            .figures(self.place, self.case.setup, &server, &outcome)
            .await?;
        client.finish().await?;
        let memory = server.memory()?;
        self.server = Some(server);
        let mut figures = operation_figures(&outcome, &used, memory);
        figures.splice(1..1, beside);
        Ok(figures)
    }
}

pub(super) fn operation_figures(outcome: &Outcome, used: &Used, memory: Memory) -> Sample {
    let operations = outcome.operations.max(1) as f64;
    let seconds = used.cpu.as_secs_f64();
    let mut figures = vec![(figure::CPU, seconds * 1e6 / operations)];
    let counted = used.counted.iter();
    figures.extend(counted.map(|(name, sum)| (*name, sum / operations)));
    figures.extend([
        (figure::RATE, outcome.per_second),
        (figure::BUSY, busy(used, outcome)),
        (figure::CLIENT_BUSY, outcome.core_percent),
        (figure::P50, outcome.operation_us.p50 as f64),
        (figure::P99, outcome.operation_us.p99 as f64),
        (figure::RSS, mib(memory.rss)),
        (figure::PSS, mib(memory.pss)),
    ]);
    if outcome.resumed > 0 {
        let share = 100.0 * outcome.resumed as f64 / outcome.handshakes.max(1) as f64;
        figures.push((figure::RESUMED, share));
    }
    figures
}

/// Returns the percentage of its core that a server used.
pub(super) fn busy(used: &Used, outcome: &Outcome) -> f64 {
    100.0 * used.cpu.as_secs_f64() / outcome.seconds.max(1e-9)
}
