//! A CA that hangs while visitors wait for their first certificates.

use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use sekisho_testkit::{Cut, Proxy};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::Counts;
use super::neighbours::{complaint, visit};
use super::orders::Orders;
use crate::acme::{Catalog, Issuance, Setting};
use crate::server::Server;
use sekisho_bench::load::Outcome;
use sekisho_bench::load::client::Client;

/// Lets so many visitors wait, and more than may wait, while the CA hangs.
/// Hosts with certificates are loaded as fast as before; then the CA is back.
pub(super) async fn run(setting: &Arc<Setting>, visits: usize, counts: &mut Counts) -> Result<()> {
    let orders = Orders::default();
    let ca = setting.pebble.proxy(orders.watch());
    let line = Proxy::before(ca.port());
    let issuance = Issuance {
        orders: MOST_ORDERS,
        waiting: visits,
        wait: 60,
        ..Issuance::at(line.port())
    };
    let catalog = Catalog::new(setting, "hang", issuance).await?;
    let cold = named("cold", 2 * COLD);
    catalog.import(&cold).await?;
    let new = put_new(&catalog, visits + BEYOND).await?;
    let server = catalog.server(Ipv4Addr::LOCALHOST)?;
    server.start().await?;
    let client = Rc::new(setting.client(Ipv4Addr::LOCALHOST, 1)?);
    // The server knows the directory, and has its account.
    serve(&client, &new[..1], SOON).await?;
    let before = visit(&client, &cold[..COLD], OVER).await?;
    line.cut(Cut::Hang);
    let visitors = begin(&client, &new[1..]);
    wait_until_waiting(&server, visits).await?;
    let during = visit(&client, &cold[COLD..], OVER).await?;
    let waiting = server.metrics().await?.value(WAITS)?;
    line.open();
    let (_, refused) = outcome(visitors).await?;
    let begun = Instant::now();
    serve(&client, &new, LATE).await?;
    let took = begun.elapsed().as_secs_f64();
    judge(&before, &during, counts);
    println!(
        "hang: {waiting} visitors waited, {} were refused; all {} were served {took:.1} s later",
        refused.len(),
        new.len()
    );
    if refused.len() < BEYOND - 1 || refused.iter().any(|why| !why.contains("InternalError")) {
        let why = refused.first();
        let what = format!(
            "hang: {} were refused, the first with {why:?}",
            refused.len()
        );
        counts.broken.push(what);
    }
    counts.orders += orders.count();
    counts.certificates += new.len();
    if orders.count() != new.len() {
        let what = format!("hang: {} orders for {} names", orders.count(), new.len());
        counts.second.push(what);
    }
    Ok(())
}

/// Stores hosts without certificates, of several tenants: one alone may not have all
/// orders.
async fn put_new(catalog: &Catalog<'_>, count: usize) -> Result<Vec<String>> {
    let names = named("new", count);
    for (number, some) in names.chunks(count.div_ceil(TENANTS)).enumerate() {
        catalog.put_hosts(&format!("tenant{number}"), some).await?;
    }
    Ok(names)
}

fn named(kind: &str, count: usize) -> Vec<String> {
    let name = |number| format!("{kind}{number}.hang.example");
    (0..count).map(name).collect()
}

type Visitors = JoinSet<Result<(), String>>;

fn begin(client: &Rc<Client>, names: &[String]) -> Visitors {
    let mut visitors = JoinSet::new();
    for name in names {
        let (client, name) = (Rc::clone(client), name.clone());
        visitors.spawn_local(async move {
            let visit = client.visit(&name, Some("/"), &mut Vec::new()).await;
            visit.map(drop).map_err(|failure| failure.kind())
        });
    }
    visitors
}

/// Returns how many were served, and why the others were not.
async fn outcome(mut visitors: Visitors) -> Result<(usize, Vec<String>)> {
    let (mut served, mut refused) = (0, Vec::new());
    while let Some(ended) = visitors.join_next().await {
        match ended? {
            Ok(()) => served += 1,
            Err(why) => refused.push(why),
        }
    }
    Ok((served, refused))
}

async fn wait_until_waiting(server: &Server, visits: usize) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < SOON {
        if server.metrics().await?.value(WAITS)? >= visits as f64 {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    let waiting = server.metrics().await?.value(WAITS)?;
    ensure!(
        waiting >= visits as f64,
        "{waiting} of {visits} visitors wait"
    );
    Ok(())
}

/// Visits all until each is served: who was refused comes back.
async fn serve(client: &Rc<Client>, names: &[String], within: Duration) -> Result<()> {
    let begun = Instant::now();
    let mut left = names.to_vec();
    while !left.is_empty() {
        ensure!(
            begun.elapsed() < within,
            "{} have no certificate",
            left.len()
        );
        let mut missing = Vec::new();
        for name in left {
            if client
                .visit(&name, Some("/"), &mut Vec::new())
                .await
                .is_err()
            {
                missing.push(name);
            }
        }
        left = missing;
    }
    Ok(())
}

fn judge(before: &Outcome, during: &Outcome, counts: &mut Counts) {
    let (was, is) = (&before.operation_us, &during.operation_us);
    println!(
        "hang: cold hosts p50/p99 {}/{} µs before, {}/{} µs meanwhile",
        was.p50, was.p99, is.p50, is.p99
    );
    let said = format!("CA hangs: cold p50 {} to {} µs", was.p50, is.p50);
    counts.said.push(said);
    for (when, outcome) in [("before", before), ("meanwhile", during)] {
        let complaint = complaint(outcome);
        counts
            .broken
            .extend(complaint.map(|what| format!("hang: cold hosts {when}: {what}")));
    }
    if is.p50 > 2 * was.p50 + SLACK_US {
        counts.broken.push(format!(
            "hang: cold hosts: p50 {} µs, before {} µs",
            is.p50, was.p50
        ));
    }
}

/// Hosts that are loaded before the CA hangs, and as many meanwhile.
const COLD: usize = 100;
/// Time over which they are visited.
const OVER: Duration = Duration::from_secs(4);
/// Visitors beyond those that may wait.
const BEYOND: usize = 20;
const TENANTS: usize = 8;
/// As many as may be configured.
const MOST_ORDERS: usize = 1024;
const SOON: Duration = Duration::from_secs(20);
/// A thousand orders, with their retries.
const LATE: Duration = Duration::from_secs(300);
/// Other processes run on this machine.
const SLACK_US: u64 = 20_000;
const WAITS: &str = "sekisho_certificate_waits";
