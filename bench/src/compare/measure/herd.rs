//! Herd: many concurrent connections for one uncached host.

use anyhow::Result;

use super::{Load, Sample, Subject, Work};
use crate::compare::rows::figure;
use crate::compare::server::PAGE;
use crate::compare::services::Service;
use crate::fixtures::HOST_PATTERN;

impl Subject<'_> {
    /// Measures store calls per herd. The store is held meanwhile: all
    /// connections arrive before its answer.
    pub(super) async fn herd(&mut self, connections: usize) -> Result<Sample> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let Some(service) = self.case.setup.service() else {
            anyhow::bail!("this row is about stores elsewhere");
        };
        let load = self.one_host(connections);
        let mut client = self.client(&load, &server).await?;
        let before = self.counted(&server, service).await?;
        let held = self.place.services.hold(service, self.binary)?;
        let outcome = client.go().await?;
        held.ended()?;
        let after = self.counted(&server, service).await?;
        client.finish().await?;
        self.server = Some(server);
        let mut sample = vec![
            (figure::CALLS, after.calls - before.calls),
            (figure::JOINED, after.joined - before.joined),
            (figure::P99, outcome.operation_us.p99 as f64),
        ];
        if service == Service::Redis {
            sample.push((figure::MGETS, (after.mgets - before.mgets) as f64));
        }
        Ok(sample)
    }

    /// Returns a load for host 10, 20, 30 …: the number is a prefix, then the 0
    /// that a pattern of one host counts.
    fn one_host(&mut self, connections: usize) -> Load {
        self.walked += 1;
        Load {
            version: self.row.version,
            group: self.case.group,
            pattern: HOST_PATTERN.replace("{n}", &format!("{}{{n}}", self.walked)),
            hosts: 1,
            start: 0,
            warmup: 0,
            field: None,
            page: PAGE,
            work: Work::Herd { connections },
        }
    }

    async fn counted(
        &self,
        server: &crate::compare::server::Server,
        service: Service,
    ) -> Result<Counted> {
        let metrics = server.metrics().await?;
        Ok(Counted {
            calls: metrics.store_calls()?.0,
            joined: metrics.value("sekisho_cache_joined_total")?,
            mgets: match service {
                Service::Redis => self.place.services.mgets()?,
                Service::Postgres | Service::Endpoint => 0,
            },
        })
    }
}

struct Counted {
    calls: f64,
    joined: f64,
    mgets: u64,
}
