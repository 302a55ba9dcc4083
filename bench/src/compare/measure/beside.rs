//! What is used beside the server, and by a client of Redis in its place.

use anyhow::Result;

use super::{Memory, Sample, Subject, operation_figures};
use crate::compare::accounting::CpuTime;
use crate::compare::client::CONCURRENCY;
use crate::compare::rows::{Setup, figure};
use crate::compare::server::Server;
use crate::compare::services::Service;
use crate::compare::setup::Place;
use crate::fixtures::HOST_PATTERN;
use crate::load::Outcome;

/// The service behind the server and its calls, before a measurement.
pub(super) struct Beside(Option<Reading>);

struct Reading {
    service: Service,
    cpu: CpuTime,
    /// Seconds that store calls took so far.
    waited: f64,
}

impl Beside {
    pub(super) async fn read(place: Place<'_>, setup: Setup, server: &Server) -> Result<Self> {
        let Some(service) = setup.service() else {
            return Ok(Self(None));
        };
        let (_, waited) = server.metrics().await?.store_calls()?;
        Ok(Self(Some(Reading {
            service,
            cpu: place.services.cpu(service)?,
            waited,
        })))
    }

    pub(super) async fn figures(
        self,
        place: Place<'_>,
        server: &Server,
        outcome: &Outcome,
    ) -> Result<Sample> {
        let Some(before) = self.0 else {
            return Ok(Vec::new());
        };
        let used = place.services.cpu(before.service)?.since(&before.cpu);
        let (_, waited) = server.metrics().await?.store_calls()?;
        let each = used.as_secs_f64() * 1e6 / outcome.operations.max(1) as f64;
        let in_flight = (waited - before.waited) / outcome.seconds.max(1e-9);
        Ok(vec![
            (figure::STORE_CPU, each),
            (figure::IN_FLIGHT, in_flight),
        ])
    }
}

impl Subject<'_> {
    /// What it costs a process to ask Redis for as many pairs, and nothing else.
    pub(super) async fn redis_client(&mut self, calls: u64) -> Result<Sample> {
        let options = self.place.options;
        let hosts = self.row.hosts.count(options.quick);
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
        let before = (client.cpu()?, self.place.services.cpu(Service::Redis)?);
        let outcome = client.go().await?;
        let used = client.cpu()?.since(&before.0);
        let redis = self.place.services.cpu(Service::Redis)?.since(&before.1);
        client.finish().await?;
        let mut figures = operation_figures(&outcome, used, Memory::default());
        let memory = [figure::RSS, figure::PSS];
        figures.retain(|(name, _)| !memory.contains(name));
        let each = redis.as_secs_f64() * 1e6 / outcome.operations.max(1) as f64;
        figures.insert(1, (figure::STORE_CPU, each));
        Ok(figures)
    }
}
