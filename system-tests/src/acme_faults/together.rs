//! Two servers that visitors ask for the same names at the same time.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures_util::future::join_all;
use tokio::time::{Instant, sleep};

use super::Counts;
use super::orders::Orders;
use crate::acme::{Catalog, Issuance, Setting};
use sekisho_bench::load::client::Client;

/// Visits each name at both servers, twice at each, all at once.
pub(super) async fn run(setting: &Arc<Setting>, names: usize, counts: &mut Counts) -> Result<()> {
    let orders = Orders::default();
    let ca = setting.pebble.proxy(orders.watch());
    let catalog = Catalog::new(setting, "together", Issuance::at(ca.port())).await?;
    let names: Vec<_> = (0..names)
        .map(|number| format!("both{number}.faults.example"))
        .collect();
    catalog.put_hosts("customer", &names).await?;
    let addresses = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 9, 0, 2)];
    let (mut servers, mut clients) = (Vec::new(), Vec::new());
    for address in addresses {
        let server = catalog.server(address)?;
        server.start().await?;
        servers.push(server);
        clients.push(setting.client(address, 1)?);
    }
    let begun = Instant::now();
    let visits = names.iter().flat_map(|name| {
        let twice = clients.iter().chain(&clients);
        twice.map(move |client| visit(client, name))
    });
    let failed = join_all(visits)
        .await
        .into_iter()
        .filter(|done| !done)
        .count();
    let took = begun.elapsed().as_secs_f64();
    let (names, orders) = (names.len(), orders.count());
    println!("together: {names} names at 2 servers, {orders} orders, {took:.1} s");
    counts.certificates += names;
    counts.orders += orders;
    if failed > 0 {
        counts
            .lost
            .push(format!("together: {failed} visits without an answer"));
    }
    if orders != names {
        counts
            .second
            .push(format!("together: {orders} orders for {names} names"));
    }
    counts
        .said
        .push(format!("{names} names at 2 servers: {orders} orders"));
    Ok(())
}

/// Visits until there is an answer: a visitor who has waited for too long comes back.
async fn visit(client: &Client, name: &str) -> bool {
    let mut buffer = Vec::new();
    for _ in 0..TRIES {
        if client.visit(name, Some("/"), &mut buffer).await.is_ok() {
            return true;
        }
        sleep(PAUSE).await;
    }
    false
}

const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_secs(1);
