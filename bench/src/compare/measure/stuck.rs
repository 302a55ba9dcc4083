//! Stuck store: cached hosts while the store answers, and while it is paused.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tokio::time::sleep;

use super::{Load, Sample, Subject, Work, walk};
use crate::compare::rows::figure;
use crate::compare::server::Server;
use crate::fixtures::HOST_PATTERN;
use crate::load::Outcome;

impl Subject<'_> {
    /// Measures both phases of one round. The server is kept for the next.
    pub(super) async fn stuck(&mut self, seconds: u32, rate: u32) -> Result<Sample> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let seconds = u32::try_from(self.effort(u64::from(seconds)))?.max(2);
        let well = self.phase(&server, seconds, rate, Store::Answers).await?;
        let stuck = self
            .phase(&server, seconds, rate, Store::StandsStill)
            .await?;
        self.until_healed(&server).await?;
        self.server = Some(server);
        let lost = 100.0 * (1.0 - stuck.cached.per_second / well.cached.per_second.max(1e-9));
        Ok(vec![
            (figure::STUCK_P99, stuck.cached.handshake_us.p99 as f64),
            (figure::WELL_P99, well.cached.handshake_us.p99 as f64),
            (figure::STUCK_P50, stuck.cached.handshake_us.p50 as f64),
            (figure::WELL_P50, well.cached.handshake_us.p50 as f64),
            (figure::STUCK_RATE, stuck.cached.per_second),
            (figure::WELL_RATE, well.cached.per_second),
            (figure::LOST, lost),
            (figure::STUCK_UNCACHED, stuck.answered()),
            (figure::WELL_UNCACHED, well.answered()),
        ])
    }

    /// Runs a steady load on cached hosts, and beside it a few uncached names.
    /// With [`Store::StandsStill`] the store is paused during both.
    async fn phase(
        &mut self,
        server: &Server,
        seconds: u32,
        rate: u32,
        store: Store,
    ) -> Result<Phase> {
        let cached = Load {
            pattern: HOST_PATTERN.to_owned(),
            hosts: CACHED,
            start: 0,
            warmup: 2 * CACHED as u64,
            work: Work::Paced {
                rate,
                seconds,
                deadline: IN_TIME,
            },
            version: self.row.version,
        };
        let uncached = Work::Paced {
            rate: TRICKLE,
            seconds,
            deadline: CLIENT_SECONDS,
        };
        let uncached = self.uncached(uncached);
        let mut cached = self.client(&cached, server).await?;
        let mut uncached = self.client(&uncached, server).await?;
        let service = match store {
            Store::Answers => None,
            Store::StandsStill => self.case.setup.service(),
        };
        let stopped = service.map(|service| self.place.services.stop(service));
        let stopped = stopped.transpose()?;
        let outcomes = tokio::try_join!(cached.attempt(), uncached.attempt());
        drop(stopped);
        cached.finish().await?;
        uncached.finish().await?;
        let (cached, uncached) = outcomes?;
        Ok(Phase { cached, uncached })
    }

    /// Returns a load of uncached hosts, each requested once.
    fn uncached(&mut self, work: Work) -> Load {
        let hosts = self.row.hosts.count(self.place.options.quick);
        let start = CACHED + self.walked % (hosts - CACHED);
        let load = Load {
            pattern: HOST_PATTERN.to_owned(),
            hosts,
            start,
            warmup: 0,
            work,
            version: self.row.version,
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

#[derive(Clone, Copy)]
enum Store {
    Answers,
    StandsStill,
}

struct Phase {
    cached: Outcome,
    uncached: Outcome,
}

impl Phase {
    fn answered(&self) -> f64 {
        let all = self.uncached.operations + self.uncached.failed;
        100.0 * self.uncached.operations as f64 / all.max(1) as f64
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
