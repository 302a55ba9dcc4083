//! Handshakes by several servers of one store, and the time until all serve a new host.

use std::time::Instant;

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use super::propagation::{HANDSHAKE, shows};
use super::{HANDSHAKE_WARMUP, Sample, Subject, walk};
use crate::compare::catalog::Changes;
use crate::compare::rows::figure;
use crate::compare::server::Server;
use crate::compare::services::Service;
use crate::fixtures::Folder;
use sekisho_bench::load::client::Client;
use sekisho_bench::tls::{Group, Offer, Trust};

impl Subject<'_> {
    /// Measures servers that share their core, with a client for each.
    pub(super) async fn servers(&mut self, servers: usize, count: u64) -> Result<Sample> {
        let mut running = Vec::new();
        for number in 1..=servers {
            let name = format!("{}-{number}", self.name);
            running.push(self.launch_as(&name, None, 1).await?);
        }
        let service = self.case.setup.service().context("a store elsewhere")?;
        let mut figures = self.handshakes_of(&running, service, count).await?;
        // The papers' layout in Redis has no changes that a server could follow.
        if service == Service::Postgres {
            figures.extend(self.new_hosts(&running, service).await?);
        }
        Ok(figures)
    }

    /// Measures handshakes of all servers at the same time.
    async fn handshakes_of(
        &mut self,
        servers: &[Server],
        service: Service,
        count: u64,
    ) -> Result<Sample> {
        let share = servers.len() as u64;
        let mut clients = Vec::new();
        for server in servers {
            let load = self.load(walk(self.effort(count) / share), HANDSHAKE_WARMUP / share);
            clients.push(self.client(&load, server).await?);
        }
        let times = || servers.iter().map(Server::cpu).collect::<Result<Vec<_>>>();
        let (before, store) = (times()?, self.place.services.cpu(service)?);
        let mut loads = JoinSet::new();
        for mut client in clients {
            loads.spawn(async move {
                let outcome = client.go().await?;
                client.finish().await?;
                anyhow::Ok(outcome)
            });
        }
        let (mut operations, mut seconds, mut client) = (0.0, 1e-9_f64, 0.0);
        while let Some(outcome) = loads.join_next().await {
            let outcome = outcome??;
            operations += outcome.operations as f64;
            seconds = seconds.max(outcome.seconds);
            client += outcome.core_percent;
        }
        let store = self.place.services.cpu(service)?.since(&store);
        let used = times()?.into_iter().zip(before);
        let used = used.map(|(after, before)| after.since(&before).as_secs_f64());
        let (used, store) = (used.sum::<f64>(), store.as_secs_f64());
        Ok(vec![
            (figure::CPU, 1e6 * used / operations),
            (service.cpu_figure(), 1e6 * store / operations),
            (figure::RATE, operations / seconds),
            (figure::BUSY, 100.0 * used / seconds),
            (figure::STORE_BUSY, 100.0 * store / seconds),
            // They share their core with the store.
            (figure::CLIENT_BUSY, client + 100.0 * store / seconds),
        ])
    }

    /// Measures the time from the commit of a new host until all servers serve it.
    async fn new_hosts(&mut self, servers: &[Server], service: Service) -> Result<Sample> {
        let offer = Offer {
            version: self.row.version,
            group: Group::X25519,
            trust: Trust::Anyone,
            resume: None,
        };
        let clients = servers.iter();
        let clients = clients.map(|server| Client::new(server.address, &offer, HANDSHAKE));
        let clients: Vec<Client> = clients.collect::<Result<_>>()?;
        let hosts = self.row.hosts.count(self.place.options.is_short());
        let fixture = self.place.workspace.fixture(self.row.key, hosts);
        let remote = self.place.services.remote(service, self.binary)?;
        let writer = Changes::open(&remote, Folder(&fixture)).await?;
        let mut times = Histogram::<u64>::new_with_bounds(1, 60_000_000, 3)?;
        let changes = self.effort(NEW_HOSTS) as usize;
        for number in 0..changes {
            // Every fifth change is a new host. What was walked tells the rounds apart.
            let change = writer.prepare(5 * (self.walked + number)).await?;
            for client in &clients {
                // Each server notes that the host is absent.
                let _ = client.open(&change.host).await;
            }
            let (host, leaf) = (change.host.clone(), change.leaf.clone());
            writer.write(change).await?;
            let committed = Instant::now();
            let all = clients.iter().map(|client| shows(client, &host, &leaf));
            let shown = try_join_all(all).await?;
            let last = shown.into_iter().max().unwrap_or(committed);
            let micros = (last - committed).as_micros();
            times.saturating_record(u64::try_from(micros)?);
        }
        let at = |share| times.value_at_quantile(share) as f64 / 1e3;
        Ok(vec![
            (figure::SEEN_P50, at(0.5)),
            (figure::SEEN_P99, at(0.99)),
            (figure::SEEN_MAX, at(1.0)),
        ])
    }
}

/// New hosts of a round.
const NEW_HOSTS: u64 = 50;
