//! Clients of both tenants at the same time, before, during and after a restart of php-fpm.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::{join, join_all};
use tokio::time::{Instant, sleep, timeout};

use super::Scale;
use super::client::{Client, Protocol};
use super::counts::Counts;
use super::setting::{Setting, TENANTS};
use super::visits::Visit;

pub(super) async fn run(setting: &Setting, scale: Scale, counts: &Counts) -> Result<()> {
    for tenant in &TENANTS {
        let mut client = Client::new(setting, tenant, tenant.php, Protocol::One, 0);
        let made = client.get("/setup.php").await;
        counts.note(
            "setup",
            made.and_then(|answer| answer.is(200, b"2 users\n")),
        );
    }
    let begun = Instant::now();
    let mut clients = clients(setting, scale.clients, FIRST);
    let mut others = self::clients(setting, 1, FIRST + clients.len());
    join(
        join_all(
            clients
                .iter_mut()
                .map(|it| requests(it, scale.requests, counts)),
        ),
        join_all(
            others
                .iter_mut()
                .map(|it| transfers(it, scale.transfers, counts)),
        ),
    )
    .await;
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{} clients of two tenants: {} requests in {took:.1} s",
        clients.len() + others.len(),
        counts.requests()
    );
    restart(setting, &mut clients, counts).await?;
    join_all(
        clients
            .iter_mut()
            .map(|it| requests(it, scale.requests, counts)),
    )
    .await;
    Ok(())
}

/// Makes so many clients of each tenant over each protocol. Neighbours in the list are of
/// different tenants.
fn clients(setting: &Setting, each: usize, first: usize) -> Vec<Client<'_>> {
    let kinds = Protocol::BOTH.iter().flat_map(|protocol| {
        let tenants = TENANTS.iter();
        tenants.map(move |tenant| (tenant, *protocol))
    });
    let all = (0..each).flat_map(|_| kinds.clone()).zip(first..);
    let clients = all.map(|((tenant, protocol), number)| {
        // Four kinds of clients for one host, then four for the other one.
        let host = [tenant.php, tenant.kept][(number - first) / 4 % 2];
        Client::new(setting, tenant, host, protocol, number)
    });
    clients.collect()
}

/// Does each light visit in turn; clients begin with different ones.
async fn requests(client: &mut Client<'_>, count: usize, counts: &Counts) {
    let first = client.number() % Visit::LIGHT.len();
    for visit in Visit::LIGHT.iter().cycle().skip(first).take(count) {
        visit_once(client, *visit, counts).await;
    }
}

async fn transfers(client: &mut Client<'_>, times: usize, counts: &Counts) {
    for _ in 0..times {
        for visit in Visit::TRANSFERS {
            visit_once(client, visit, counts).await;
        }
    }
}

async fn visit_once(client: &mut Client<'_>, visit: Visit, counts: &Counts) {
    let judged = client.visit(visit).await;
    counts.note(&format!("{} {visit:?}", client.name()), judged);
}

/// Restarts php-fpm amid requests. Some get no answer until it runs again.
async fn restart(setting: &Setting, clients: &mut [Client<'_>], counts: &Counts) -> Result<()> {
    let is_over = Cell::new(false);
    counts.is_restarting.set(true);
    let before = counts.requests();
    let asking = clients.iter_mut().map(async |client| {
        for visit in Visit::LIGHT.iter().cycle() {
            if is_over.get() {
                break;
            }
            visit_once(client, *visit, counts).await;
        }
    });
    let restarting = async {
        // Some requests are on their way.
        while counts.requests() < before + UNDERWAY {
            sleep(POLL).await;
        }
        let restarted = setting.restart_php().await;
        let well = timeout(WELL, well(setting)).await;
        is_over.set(true);
        restarted?;
        well.context("php-fpm runs again, but its requests fail")
    };
    let (took, _) = join(restarting, join_all(asking)).await;
    counts.is_restarting.set(false);
    let requests = counts.requests() - before;
    println!(
        "php-fpm was restarted amid {requests} requests: {} got no answer, and it served again \
         after {} ms",
        counts.away(),
        took?.as_millis()
    );
    ensure!(requests > counts.away(), "no request was answered");
    Ok(())
}

/// Waits until scripts of both tenants answer again; returns how long that took.
async fn well(setting: &Setting) -> Duration {
    let begun = Instant::now();
    for tenant in &TENANTS {
        let mut client = Client::new(setting, tenant, tenant.php, Protocol::One, 1);
        while client.page().await.is_err() {
            sleep(POLL).await;
        }
    }
    begun.elapsed()
}

/// Number of the first client.
const FIRST: usize = 10;
/// Requests before the restart.
const UNDERWAY: u64 = 40;
const POLL: Duration = Duration::from_millis(5);
/// Time within which all is well again.
const WELL: Duration = Duration::from_secs(2);
