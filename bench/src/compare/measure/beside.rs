//! Resources of the services behind a server, and of a Redis client in the
//! server's place.

use anyhow::{Result, ensure};

use super::figures::operation_figures;
use super::{Memory, Sample, Subject};
use crate::compare::client::CONCURRENCY;
use crate::compare::meter::Meter;
use crate::compare::rows::{Setup, figure};
use crate::compare::server::Server;
use crate::compare::services::Service;
use crate::compare::setup::Place;
use crate::fixtures::HOST_PATTERN;
use sekisho_bench::accounting::CpuTime;
use sekisho_bench::load::Outcome;

/// Reading of the services and the server's store calls, before a measurement.
pub(super) struct Beside(Option<Reading>);

struct Reading {
    cpu: Vec<(Service, CpuTime)>,
    /// Seconds that store calls took so far; None for a peer, which does not tell.
    waited: Option<f64>,
    /// Lookups that the Redis cache answered so far, and all that it received.
    reads: Option<(f64, f64)>,
}

impl Beside {
    pub(super) async fn read(place: Place<'_>, setup: Setup, server: &Server) -> Result<Self> {
        if setup.services().is_empty() {
            return Ok(Self(None));
        }
        Ok(Self(Some(Reading::take(place, setup, server).await?)))
    }

    pub(super) async fn figures(
        self,
        place: Place<'_>,
        setup: Setup,
        server: &Server,
        outcome: &Outcome,
    ) -> Result<Sample> {
        let Some(before) = self.0 else {
            return Ok(Vec::new());
        };
        let after = Reading::take(place, setup, server).await?;
        let operations = outcome.operations.max(1) as f64;
        // Hosts in memory ask it for nothing.
        let asks = |(_, before), (_, after)| after > before;
        let reads = before.reads.zip(after.reads);
        if let Some((before, after)) = reads.filter(|(before, after)| asks(*before, *after)) {
            let share = 100.0 * (after.0 - before.0) / (after.1 - before.1);
            ensure!(
                share >= MIN_HITS,
                "the Redis cache answered {share:.1} % of the lookups; {MIN_HITS} % or more \
                 would measure it"
            );
        }
        let mut figures = Vec::new();
        for ((service, after), (_, before)) in after.cpu.iter().zip(&before.cpu) {
            let micros = after.since(before).as_secs_f64() * 1e6;
            figures.push((service.cpu_figure(), micros / operations));
        }
        if let (Some(before), Some(after)) = (before.waited, after.waited) {
            let in_flight = (after - before) / outcome.seconds.max(1e-9);
            figures.push((figure::IN_FLIGHT, in_flight));
        }
        Ok(figures)
    }
}

impl Reading {
    async fn take(place: Place<'_>, setup: Setup, server: &Server) -> Result<Self> {
        let metrics = match setup.is_sekisho() {
            true => Some(server.metrics().await?),
            false => None,
        };
        let services = setup.services().iter();
        let cpu = services.map(|service| Ok((*service, place.services.cpu(*service)?)));
        Ok(Self {
            cpu: cpu.collect::<Result<_>>()?,
            waited: match &metrics {
                Some(metrics) => Some(metrics.store_calls()?.1),
                None => None,
            },
            reads: match &metrics {
                Some(metrics) if setup.has_redis_cache() => Some(metrics.redis_cache_reads()?),
                _ => None,
            },
        })
    }
}

impl Subject<'_> {
    /// Measures a Redis client that reads as many pairs and does nothing else.
    pub(super) async fn redis_client(&mut self, calls: u64) -> Result<Sample> {
        let options = self.place.options;
        let hosts = self.row.hosts.count(options.is_short());
        let port = self.place.services.redis_port()?;
        let arguments = [
            "redis".to_owned(),
            format!("--target=127.0.0.1:{port}"),
            format!("--name-pattern={HOST_PATTERN}"),
            format!("--count={hosts}"),
            format!("--start={}", self.walked % hosts),
            format!("--calls={calls}"),
            format!("--concurrency={CONCURRENCY}"),
        ];
        self.walked += calls as usize;
        let core = options.server_core;
        let mut client = self.start_client(&arguments, calls, core).await?;
        let before = self.place.services.cpu(Service::Redis)?;
        let meter = Meter::start(client.pid()?, self.place.support)?;
        let outcome = client.go().await?;
        let used = meter.stop()?;
        let redis = self.place.services.cpu(Service::Redis)?.since(&before);
        client.finish().await?;
        let mut figures = operation_figures(&outcome, &used, Memory::default());
        // The client itself is measured, on the server's core.
        let of_servers = [figure::RSS, figure::PSS, figure::CLIENT_BUSY];
        figures.retain(|(name, _)| !of_servers.contains(name));
        let each = redis.as_secs_f64() * 1e6 / outcome.operations.max(1) as f64;
        figures.insert(1, (figure::REDIS_CPU, each));
        Ok(figures)
    }
}

/// Least percentage of hits: some hosts are left out while the cache is filled.
const MIN_HITS: f64 = 98.0;
