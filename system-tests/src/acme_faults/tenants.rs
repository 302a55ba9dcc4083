//! Very many new names of one tenant beside one name of another.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use sekisho_certs::Clock;
use tokio::time::{Instant, sleep};

use super::Counts;
use super::orders::Orders;
use crate::acme::{Catalog, Issuance, Setting};

/// Lets one tenant have so many names that wait for their first certificates. A name of
/// another tenant that is visited, and one that waits too, have theirs soon.
pub(super) async fn run(setting: &Arc<Setting>, names: usize, counts: &mut Counts) -> Result<()> {
    let orders = Orders::default();
    let ca = setting.pebble.proxy(orders.watch());
    let catalog = Catalog::new(setting, "tenants", Issuance::at(ca.port())).await?;
    let many: Vec<_> = (0..names)
        .map(|number| format!("many{number}.tenants.example"))
        .collect();
    let now = Clock::System.now();
    catalog.put_hosts("many", &many).await?;
    // As visits give the turns of one tenant's names.
    let turn = |number: usize| now + HOUR * i64::try_from(number).unwrap_or(i64::MAX / HOUR);
    catalog.put_lineages("many", &many, turn).await?;
    let few = ["visited", "waiting"].map(|name| format!("{name}.tenants.example"));
    catalog.put_hosts("few", &few).await?;
    let server = catalog.server(Ipv4Addr::LOCALHOST)?;
    server.start().await?;
    let begun = Instant::now();
    while orders.count() < UNDER_WAY.min(names) {
        ensure!(begun.elapsed() < PATIENCE, "the orders don't begin");
        sleep(PAUSE).await;
    }
    let begun = Instant::now();
    catalog.put_lineages("few", &few[1..], |_| now).await?;
    let client = setting.client(Ipv4Addr::LOCALHOST, 1)?;
    let visited = client.visit(&few[0], Some("/"), &mut Vec::new()).await;
    let visited = visited.map_err(|failure| failure.kind());
    let visited_after = begun.elapsed();
    while !catalog.is_settled(&few[1]).await? && begun.elapsed() < PATIENCE {
        sleep(PAUSE).await;
    }
    let waited = begun.elapsed();
    let ordered = orders.count();
    println!(
        "tenants: beside {names} names of another tenant, {ordered} of them ordered by then, a \
         visited name took {visited_after:.1?}, one that waited {waited:.1?}"
    );
    if visited.is_err() || visited_after > AT_ONCE {
        let what = format!("tenants: the visited name took {visited_after:?}: {visited:?}");
        counts.broken.push(what);
    }
    if waited > AT_ONCE {
        counts
            .broken
            .push(format!("tenants: the waiting name took {waited:?}"));
    }
    if ordered >= names {
        let what = format!("tenants: all {names} names were ordered before");
        counts.broken.push(what);
    }
    let said = format!(
        "1 name beside {names}: {:.1} s",
        visited_after.as_secs_f64()
    );
    counts.said.push(said);
    Ok(())
}

const HOUR: i64 = 3600;
/// Orders of the one tenant after which the other comes.
const UNDER_WAY: usize = 30;
/// Orders that are under way at the CA take this long on a busy machine.
const AT_ONCE: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(50);
