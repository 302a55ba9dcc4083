//! Floods of random names: nothing is ordered, read beyond the budget, or kept.

mod stranger;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use self::stranger::{Kind, Stranger};
use super::Counts;
use super::neighbours::{complaint, visit};
use super::orders::Orders;
use crate::acme::{Catalog, Issuance, Setting};
use crate::server::Server;
use sekisho_bench::accounting::Memory;
use sekisho_bench::load::client::Client;

/// Sends floods of each kind, each from a network of its own, while others visit.
pub(super) async fn run(setting: &Arc<Setting>, names: usize, counts: &mut Counts) -> Result<()> {
    let orders = Orders::default();
    let ca = setting.pebble.proxy(orders.watch());
    let catalog = Catalog::new(setting, "floods", Issuance::at(ca.port())).await?;
    let floods = Kind::ALL.len() + 1;
    let hosts: Vec<_> = (0..floods * COLD)
        .map(|number| format!("cold{number}.faults.example"))
        .collect();
    catalog.import(&hosts).await?;
    let server = catalog.server(Ipv4Addr::LOCALHOST)?;
    server.start().await?;
    let client = setting.client(Ipv4Addr::LOCALHOST, 1)?;
    let mut cold = hosts.chunks(COLD);
    let over = Duration::from_secs(60) * u32::try_from(names)? / PER_MINUTE;
    let flood = |kind, net, over: Duration| Flood {
        stranger: Stranger::new(setting, kind, net),
        names: usize::try_from(over.as_millis()).unwrap_or(0) * PER_MINUTE as usize / 60_000,
        over,
    };
    // The server keeps what the first strangers make it allocate.
    let first = cold.next().unwrap_or_default();
    flood(Kind::Hello, 65, WARM_UP)
        .run(&server, &client, first, counts)
        .await?;
    let before = Memory::read(server.pid()?)?.rss;
    for ((kind, net), cold) in Kind::ALL.into_iter().zip(66..).zip(cold) {
        flood(kind, net, over)
            .run(&server, &client, cold, counts)
            .await?;
    }
    let grown = Memory::read(server.pid()?)?.rss.saturating_sub(before);
    let ordered = orders.count();
    if ordered > 0 {
        counts
            .second
            .push(format!("floods: {ordered} orders for random names"));
    }
    if grown > MOST_GROWN {
        counts.broken.push(format!(
            "floods: memory grew by {grown} bytes, {MOST_GROWN} may be"
        ));
    }
    let grown = grown as f64 / f64::from(1 << 20);
    let names = names * Kind::ALL.len();
    println!("floods: {names} random names, {ordered} orders, memory +{grown:.1} MiB");
    counts.said.push(format!(
        "{names} random names: {ordered} orders, memory +{grown:.1} MiB"
    ));
    Ok(())
}

/// Flood of one kind.
struct Flood {
    stranger: Stranger,
    names: usize,
    over: Duration,
}

impl Flood {
    /// Floods the server, and judges what that costs it and others.
    async fn run(
        &self,
        server: &Server,
        client: &Client,
        cold: &[String],
        counts: &mut Counts,
    ) -> Result<()> {
        let kind = self.stranger.kind();
        let before = calls(server).await?;
        let cached: Vec<_> = cold[..1].iter().cycle().take(CACHED).cloned().collect();
        let (told, cached, loaded) = tokio::join!(
            self.stranger.flood(self.names, self.over),
            visit(client, &cached, self.over),
            visit(client, cold, self.over),
        );
        let (told, cached, loaded) = (told?, cached?, loaded?);
        let calls = calls(server).await? - before;
        let most = self.most_calls(cold.len());
        let (p50, p99) = (loaded.operation_us.p50, loaded.operation_us.p99);
        println!(
            "floods: {} as {kind:?}: {told:?}; {calls} store calls of {most:.0}; \
             cold hosts p50 {p50} p99 {p99} µs",
            self.names
        );
        if calls > most {
            let what = format!("floods: {kind:?}: {calls} store calls, {most:.0} may be");
            counts.broken.push(what);
        }
        let complaints = [("cached", cached), ("cold", loaded)];
        for (which, outcome) in complaints {
            let complaint = complaint(&outcome);
            let told = |what| format!("floods: {kind:?}: {which} hosts: {what}");
            counts.broken.extend(complaint.map(told));
        }
        let total: usize = told.values().sum();
        if total != self.names || told.keys().any(|one| !kind.may_be_told(one)) {
            counts.broken.push(format!("floods: {kind:?}: {told:?}"));
        }
        Ok(())
    }

    /// Returns the calls for what a prefix may look up in vain, `absent_per_prefix`,
    /// and for hosts that are there.
    fn most_calls(&self, cold: usize) -> f64 {
        let absent = f64::from(ABSENT_PER_PREFIX) * (1.0 + self.over.as_secs_f64() / 60.0);
        absent * CALLS_ABSENT + cold as f64 * CALLS_FOUND
    }
}

/// Returns the store calls of lookups and of challenges.
async fn calls(server: &Server) -> Result<f64> {
    let metrics = server.metrics().await?;
    Ok(metrics.store_calls()?.0 + metrics.challenge_reads()?)
}

/// Random names per minute.
const PER_MINUTE: u32 = 10_000;
const WARM_UP: Duration = Duration::from_secs(3);
/// Hosts that are loaded during a flood, and visits of one that is cached.
const COLD: usize = 50;
const CACHED: usize = 50;
/// The configuration's default.
const ABSENT_PER_PREFIX: u32 = 600;
/// The name and the wildcard above it are one call; a load that a change overtook is
/// repeated.
const CALLS_ABSENT: f64 = 1.1;
const CALLS_FOUND: f64 = 2.0;
/// Absences of 10,000 names, and what the allocator keeps of buffers.
const MOST_GROWN: u64 = 8 << 20;
