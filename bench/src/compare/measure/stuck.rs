//! Stuck store or hook: cached hosts beside handshakes that wait.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::time::sleep;

use super::{Load, Sample, Subject, Work, walk};
use crate::compare::rows::figure;
use crate::compare::server::{PAGE, Server};
use crate::compare::services::Stopped;
use crate::fixtures::HOST_PATTERN;
use sekisho_bench::load::Outcome;

impl Subject<'_> {
    /// Measures both phases of one round. The server is kept for the next.
    pub(super) async fn stuck(&mut self, seconds: u32, rate: u32) -> Result<Sample> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let seconds = u32::try_from(self.effort(u64::from(seconds)))?.max(2);
        let well = self.phase(&server, seconds, rate, Beside::Uncached);
        let well = well.await?;
        let stuck = self.phase(&server, seconds, rate, Beside::StoppedStore);
        let stuck = stuck.await?;
        self.until_healed(&server).await?;
        self.server = Some(server);
        Ok(figures(&well, &stuck))
    }

    /// Measures both phases of one round with a hook, in which uncached names wait.
    pub(super) async fn hook_stuck(&mut self, seconds: u32, rate: u32) -> Result<Sample> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let seconds = u32::try_from(self.effort(u64::from(seconds)))?.max(2);
        let well = self.phase(&server, seconds, rate, Beside::Nothing);
        let well = well.await?;
        let stuck = self.phase(&server, seconds, rate, Beside::Uncached);
        let stuck = stuck.await?;
        self.server = Some(server);
        Ok(figures(&well, &stuck))
    }

    /// Runs a steady load on cached hosts, and something beside it.
    async fn phase(
        &mut self,
        server: &Server,
        seconds: u32,
        rate: u32,
        beside: Beside,
    ) -> Result<Phase> {
        let cached = Load {
            pattern: HOST_PATTERN.to_owned(),
            hosts: CACHED,
            start: 0,
            warmup: 2 * CACHED as u64,
            field: None,
            page: PAGE,
            work: Work::Paced {
                rate,
                seconds,
                deadline: IN_TIME,
            },
            version: self.row.version,
            group: self.case.group,
        };
        let uncached = Work::Paced {
            rate: TRICKLE,
            seconds,
            deadline: CLIENT_SECONDS,
        };
        let uncached = (beside != Beside::Nothing).then(|| self.uncached(uncached));
        let mut cached = self.client(&cached, server).await?;
        let mut uncached = match uncached {
            Some(uncached) => Some(self.client(&uncached, server).await?),
            None => None,
        };
        let stopped = match beside {
            Beside::Nothing | Beside::Uncached => None,
            Beside::StoppedStore => Some(self.stop_store()?),
        };
        let few = async {
            match &mut uncached {
                Some(uncached) => uncached.attempt().await.map(Some),
                None => Ok(None),
            }
        };
        let outcomes = tokio::try_join!(cached.attempt(), few);
        drop(stopped);
        cached.finish().await?;
        if let Some(uncached) = uncached {
            uncached.finish().await?;
        }
        // Failed connections are figures here; that the server died is none.
        ensure!(
            server.is_alive(),
            "the server ended in the middle of the case; it wrote {}",
            self.place.log(&self.name, "server").display()
        );
        let (cached, uncached) = outcomes?;
        Ok(Phase { cached, uncached })
    }

    /// Pauses the store, or lets the files of a peer that reads them hang.
    fn stop_store(&self) -> Result<Stopped<'_>> {
        let (place, setup) = (self.place, self.case.setup);
        if setup.reads_files() {
            let _guard = place.workspace.hanging().hang()?;
            return Ok(Stopped::Files { _guard });
        }
        let service = setup.service().context("there is no store to stop")?;
        place.services.stop(service)
    }

    /// Returns a load of uncached hosts, each requested once.
    fn uncached(&mut self, work: Work) -> Load {
        let hosts = self.row.hosts.count(self.place.options.is_short());
        let start = CACHED + self.walked % (hosts - CACHED);
        let load = Load {
            pattern: HOST_PATTERN.to_owned(),
            hosts,
            start,
            warmup: 0,
            field: None,
            page: PAGE,
            work,
            version: self.row.version,
            group: self.case.group,
        };
        self.walked += load.operations() as usize;
        load
    }

    /// Waits until the server uses its store again: circuit breakers rest for
    /// some seconds, and connections are made again.
    async fn until_healed(&mut self, server: &Server) -> Result<()> {
        let begin = Instant::now();
        loop {
            let load = self.uncached(walk(1));
            let mut client = self.client(&load, server).await?;
            self.commands.pop();
            let outcome = client.attempt().await?;
            client.finish().await?;
            if outcome.failed == 0 {
                return Ok(());
            }
            ensure!(
                begin.elapsed() < HEALS,
                "the server does not find its store again"
            );
            sleep(Duration::from_millis(200)).await;
        }
    }
}

/// Figures of both phases, those of the second first.
fn figures(well: &Phase, stuck: &Phase) -> Sample {
    let lost = 100.0 * (1.0 - stuck.cached.per_second / well.cached.per_second.max(1e-9));
    let mut figures = vec![
        (figure::STUCK_P99, stuck.cached.handshake_us.p99 as f64),
        (figure::WELL_P99, well.cached.handshake_us.p99 as f64),
        (figure::STUCK_P50, stuck.cached.handshake_us.p50 as f64),
        (figure::WELL_P50, well.cached.handshake_us.p50 as f64),
        (figure::STUCK_RATE, stuck.cached.per_second),
        (figure::WELL_RATE, well.cached.per_second),
        (figure::LOST, lost),
        (
            figure::CLIENT_BUSY,
            well.core_percent().max(stuck.core_percent()),
        ),
    ];
    if stuck.cached.operations == 0 {
        // 0 µs would look like the best of all. The rate is the main figure instead.
        figures.retain(|(name, _)| ![figure::STUCK_P99, figure::STUCK_P50].contains(name));
        figures.sort_by_key(|(name, _)| *name != figure::STUCK_RATE);
    }
    let uncached = [
        (figure::STUCK_UNCACHED, stuck.answered()),
        (figure::WELL_UNCACHED, well.answered()),
    ];
    figures.extend(
        uncached
            .into_iter()
            .filter_map(|(name, part)| Some((name, part?))),
    );
    figures
}

/// Load beside the cached hosts.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Beside {
    Nothing,
    /// A few uncached names.
    Uncached,
    /// A few uncached names, while the store is paused.
    StoppedStore,
}

struct Phase {
    cached: Outcome,
    uncached: Option<Outcome>,
}

impl Phase {
    /// Returns the percentage of their core that both clients used.
    fn core_percent(&self) -> f64 {
        let uncached = self.uncached.as_ref();
        self.cached.core_percent + uncached.map_or(0.0, |uncached| uncached.core_percent)
    }

    /// Returns the percentage of uncached names that were answered.
    fn answered(&self) -> Option<f64> {
        let uncached = self.uncached.as_ref()?;
        let all = uncached.operations + uncached.failed;
        Some(100.0 * uncached.operations as f64 / all.max(1) as f64)
    }
}

const CACHED: usize = 100;
/// A slower handshake has not kept the rate. In seconds.
const IN_TIME: u32 = 1;
/// Uncached names per second.
const TRICKLE: u32 = 20;
/// Longer than the server's own deadline. In seconds.
const CLIENT_SECONDS: u32 = 4;
const HEALS: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use sekisho_bench::load::Tally;

    use super::*;

    fn phase(answers: usize) -> Phase {
        let mut tally = Tally::new().unwrap();
        for _ in 0..answers {
            tally.operation(Duration::from_millis(2));
            tally.handshake(Duration::from_millis(1), false);
        }
        Phase {
            cached: tally.outcome(Duration::from_secs(1)),
            uncached: None,
        }
    }

    #[test]
    fn a_server_without_answers_has_no_time_of_a_handshake() {
        let value = |stuck, wanted| {
            let figures = figures(&phase(4), &phase(stuck));
            let found = figures.into_iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value)
        };
        assert!(value(1, figure::STUCK_P99) > Some(990.0));
        assert_eq!(value(0, figure::STUCK_P99), None);
        assert_eq!(value(0, figure::STUCK_P50), None);
        let first = figures(&phase(4), &phase(0)).into_iter().next();
        assert_eq!(first, Some((figure::STUCK_RATE, 0.0)));
        assert_eq!(value(1, figure::LOST), Some(75.0));
        assert_eq!(value(0, figure::LOST), Some(100.0));
    }
}
