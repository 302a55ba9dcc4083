//! Hosts whose DNS entries lead elsewhere for a quarter of an hour, at a CA with Let's
//! Encrypt's limits.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::future::join_all;
use sekisho_certs::Clock;
use sekisho_testkit::services::CaLimits;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep};

use super::Counts;
use crate::acme::{Catalog, Issuance, Setting};
use sekisho_bench::load::client::Client;

/// Hosts that are mended after [`WRONG`]: one half is renewed by hand at once, the other
/// half is served within [`SERVED`]. Runs beside the other parts.
pub(super) struct Mended {
    task: JoinHandle<Result<Ended>>,
}

struct Ended {
    hosts: usize,
    /// How much faster than real time it went.
    scale: u32,
    /// Time of the commands by hand.
    by_hand: Duration,
    /// Time until the last of the others was served, unscaled.
    last: Duration,
    /// Orders that the CA refused by a limit.
    refused: usize,
    broken: Vec<String>,
}

impl Mended {
    /// Begins. With a `scale` above 1, the periods of the limits and the pauses between
    /// two attempts are divided by it: the latter in the rows that the server has written.
    pub(super) fn begin(setting: &Arc<Setting>, hosts: usize, scale: u32) -> Self {
        let setting = Arc::clone(setting);
        let task = spawn_local(async move { run(&setting, hosts, scale).await });
        Self { task }
    }

    /// Waits until all hosts are served, or should be.
    pub(super) async fn end(self, counts: &mut Counts) -> Result<()> {
        let ended = self.task.await??;
        let minutes = |time: Duration| time.as_secs_f64() / 60.0;
        println!(
            "mended: {} hosts led elsewhere for {} min; the last was served {:.1} min later, cert \
             renew took {:.1} s; the CA's limits refused {} requests; time went {} times as fast",
            ended.hosts,
            WRONG.as_secs() / 60,
            minutes(ended.last),
            ended.by_hand.as_secs_f64(),
            ended.refused,
            ended.scale,
        );
        if ended.broken.is_empty() {
            counts.certificates += ended.hosts;
            counts.said.push(format!(
                "{} mended hosts, all served within {} min, cert renew at once",
                ended.hosts,
                SERVED.as_secs() / 60
            ));
        }
        counts.broken.extend(ended.broken);
        Ok(())
    }
}

async fn run(setting: &Setting, hosts: usize, scale: u32) -> Result<Ended> {
    let limits = scaled(CaLimits::letsencrypt(), scale);
    let ca = setting.pebble.limited(limits, || Clock::System.now_ms());
    let issuance = Issuance {
        solvers: &["tls-alpn-01", "http-01"],
        quotas: Some(limits),
        ..Issuance::at(ca.port())
    };
    let catalog = Catalog::new(setting, "mended", issuance).await?;
    let names: Vec<_> = (0..hosts).map(name).collect();
    for name in &names {
        setting.lead(name, NOBODY);
    }
    catalog.put_hosts("customer", &names).await?;
    let server = catalog.server(SERVER)?;
    server.start().await?;
    let client = Rc::new(setting.client(SERVER, 1)?);
    let mut pauses = Pauses {
        scale,
        seen: HashMap::new(),
    };
    let begun = Instant::now();
    while begun.elapsed() < WRONG / scale {
        visit_all(&client, &names).await;
        pauses.shorten(&catalog, &names).await?;
        sleep(PAUSE / scale).await;
    }
    for name in &names {
        setting.lead(name, SERVER);
    }
    let (mut left, by_hand) = (names.clone(), names[..hosts / 2].to_vec());
    let begun = Instant::now();
    let mut broken = Vec::new();
    if let Err(error) = catalog.renew(&by_hand).await {
        broken.push(format!("mended: cert renew: {error:#}"));
    }
    let took = begun.elapsed();
    while !left.is_empty() && begun.elapsed() < SERVED / scale {
        left = visit_all(&client, &left).await;
        pauses.shorten(&catalog, &left).await?;
        sleep(PAUSE / scale).await;
    }
    for name in &left {
        let lineage = catalog.lineage(name).await?.context("it is not removed")?;
        let why = lineage.last_error.map(|error| error.text);
        broken.push(format!("mended: {name} is not served: {why:?}"));
    }
    Ok(Ended {
        hosts,
        scale,
        by_hand: took,
        last: begun.elapsed() * scale,
        refused: ca.refused().len(),
        broken,
    })
}

/// Half of the hosts are below domains of their own, half below one: what their failed
/// orders take of its limit must be given back.
fn name(number: usize) -> String {
    match number % 2 {
        0 => format!("own.mended{number}.example"),
        _ => format!("host{number}.mended.example"),
    }
}

/// Visits all at once. Returns those without an answer.
async fn visit_all(client: &Client, names: &[String]) -> Vec<String> {
    let visits = names.iter().map(|name| async move {
        let visit = client.visit(name, Some("/"), &mut Vec::new()).await;
        visit.is_err().then(|| name.clone())
    });
    join_all(visits).await.into_iter().flatten().collect()
}

/// Shortens pauses between two attempts.
struct Pauses {
    scale: u32,
    /// Failures whose pause was shortened: the second of the last one, by name.
    seen: HashMap<String, i64>,
}

impl Pauses {
    async fn shorten(&mut self, catalog: &Catalog<'_>, names: &[String]) -> Result<()> {
        if self.scale == 1 {
            return Ok(());
        }
        for name in names {
            let lineage = catalog.lineage(name).await?;
            let failed = lineage.and_then(|one| one.last_error.filter(|_| one.claim.is_none()));
            let Some(at) = failed.map(|error| error.at) else {
                continue;
            };
            if self.seen.get(name) != Some(&at)
                && catalog.shorten_pause(name, at, self.scale).await?
            {
                self.seen.insert(name.clone(), at);
            }
        }
        Ok(())
    }
}

fn scaled(limits: CaLimits, scale: u32) -> CaLimits {
    let scaled = |(count, seconds): (u32, u32)| (count, seconds / scale);
    CaLimits {
        orders: scaled(limits.orders),
        domains: scaled(limits.domains),
        duplicates: scaled(limits.duplicates),
        failures: scaled(limits.failures),
        ..limits
    }
}

/// Time for which the hosts lead elsewhere.
const WRONG: Duration = Duration::from_mins(15);
/// Time within which they are served afterwards: the CA gives one failed validation back
/// in twelve minutes, and an eighth is added as jitter.
const SERVED: Duration = Duration::from_mins(14);
/// Address at which nobody listens.
const NOBODY: Ipv4Addr = Ipv4Addr::new(127, 250, 0, 1);
const SERVER: Ipv4Addr = Ipv4Addr::new(127, 250, 0, 2);
/// Time between two visits of a host, unscaled.
const PAUSE: Duration = Duration::from_secs(5);
