//! Kills at each step of an order: a second server takes it over.

mod point;

use std::net::Ipv4Addr;
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use self::point::{Point, Watch};
use super::Counts;
use crate::acme::{Catalog, Issuance, Setting};

/// Kills of a server at each request of an order, before the CA is asked and before the
/// server has the answer, and around the storing of the certificate: all at once, each
/// in a catalog of its own. Claims of dead servers last for a minute.
pub(super) struct Kills {
    cases: JoinSet<Result<Ended>>,
}

impl Kills {
    /// Begins with all of them, and waits until the servers are dead.
    pub(super) async fn begin(setting: &Arc<Setting>) -> Result<Self> {
        let gate = Gate::default();
        let steps = Case::new(setting, 0, None).run(&gate).await?.steps;
        println!("kills: an order is {}", steps.join(", "));
        let mut cases = JoinSet::new();
        let points = Point::all(&steps);
        let count = u32::try_from(points.len())?;
        for (number, point) in (1..).zip(points) {
            let (case, gate) = (Case::new(setting, number, Some(point)), gate.clone());
            cases.spawn_local(async move { case.run(&gate).await });
        }
        let all = timeout(PATIENCE, gate.killed.acquire_many(count)).await;
        drop(all.context("not all servers were killed in time")??);
        println!("kills: {count} servers are dead");
        Ok(Self { cases })
    }

    /// Waits until all certificates are there, and counts.
    pub(super) async fn end(mut self, counts: &mut Counts) -> Result<()> {
        while let Some(ended) = self.cases.join_next().await {
            let ended = ended??;
            println!("kills: {}", ended.describe());
            counts.kills += usize::from(ended.is_killed);
            counts.certificates += usize::from(ended.after.is_some());
            counts.orders += ended.orders;
            counts.twice += usize::from(ended.orders == 2 && ended.may_order_twice);
            if ended.after.is_none() {
                counts.lost.push(ended.describe());
            }
            if ended.orders > 1 + usize::from(ended.may_order_twice) {
                counts.second.push(ended.describe());
            }
        }
        Ok(())
    }
}

/// Bound of starts at the same time, and a permit for each server that is dead.
#[derive(Clone)]
struct Gate {
    starting: Arc<Semaphore>,
    killed: Arc<Semaphore>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            starting: Arc::new(Semaphore::new(STARTING)),
            killed: Arc::new(Semaphore::new(0)),
        }
    }
}

/// Kill at a point of an order.
struct Case {
    setting: Arc<Setting>,
    number: u8,
    watch: Arc<Watch>,
}

/// Result of a kill.
struct Ended {
    point: String,
    is_killed: bool,
    /// True if the server that was killed had got the certificate before.
    was_served: bool,
    orders: usize,
    may_order_twice: bool,
    /// Time until the certificate was served; none if it was lost.
    after: Option<Duration>,
    /// Requests of the order.
    steps: Vec<String>,
}

impl Case {
    fn new(setting: &Arc<Setting>, number: u8, point: Option<Point>) -> Self {
        Self {
            setting: Arc::clone(setting),
            number,
            watch: Arc::new(Watch::new(point)),
        }
    }

    async fn run(self, gate: &Gate) -> Result<Ended> {
        let name = format!("kill{}.faults.example", self.number);
        let [doomed, heir] = [1, 2].map(|last| Ipv4Addr::new(127, 9, self.number, last));
        let watch = Arc::clone(&self.watch);
        let ca = self
            .setting
            .pebble
            .proxy(move |path, status| watch.sees(path, status));
        let mut issuance = Issuance::at(ca.port());
        if self.number % 2 == 1 {
            issuance.solvers = &["http-01"];
        }
        let catalog = format!("kill{}", self.number);
        let catalog = Catalog::new(&self.setting, &catalog, issuance).await?;
        catalog
            .put_hosts("customer", slice::from_ref(&name))
            .await?;
        // The heir answers challenges from the start: a CA that finds nobody ends the order.
        self.setting.lead(&name, heir);
        // First the heir, which looks for what is due when it starts and each 5 s.
        let servers = [catalog.server(heir)?, catalog.server(doomed)?];
        {
            let _turn = gate.starting.acquire().await?;
            for server in &servers {
                server.start().await?;
            }
        }
        self.watch.doom(servers[1].pid()?)?;
        let begun = Instant::now();
        let was_served = self.visit_until_killed(&name, doomed).await?;
        if self.watch.point.is_some() {
            gate.killed.add_permits(1);
        }
        let served = self.visit_until_served(&name, heir, begun).await?;
        let is_stored = served && settles(&catalog, &name).await?;
        Ok(self.ended(was_served, is_stored.then(|| begun.elapsed())))
    }

    /// Visits the first server until it is dead, or has got a certificate. Tells whether
    /// it has.
    async fn visit_until_killed(&self, name: &str, server: Ipv4Addr) -> Result<bool> {
        let client = self.setting.client(server, 1)?;
        let mut buffer = Vec::new();
        let begun = Instant::now();
        while !self.watch.is_killed() && begun.elapsed() < PATIENCE {
            if client.visit(name, Some("/"), &mut buffer).await.is_ok() {
                // A kill that comes after the storing comes soon.
                sleep(point::LATEST).await;
                return Ok(true);
            }
            sleep(PAUSE).await;
        }
        Ok(false)
    }

    /// Visits the other server until it serves the host's page.
    async fn visit_until_served(
        &self,
        name: &str,
        server: Ipv4Addr,
        begun: Instant,
    ) -> Result<bool> {
        let client = self.setting.client(server, 1)?;
        let mut buffer = Vec::new();
        while begun.elapsed() < PATIENCE {
            if client.visit(name, Some("/"), &mut buffer).await.is_ok() {
                return Ok(true);
            }
            sleep(PAUSE).await;
        }
        Ok(false)
    }

    fn ended(&self, was_served: bool, after: Option<Duration>) -> Ended {
        let point = self.watch.point.as_ref();
        Ended {
            point: point.map_or("no kill".to_owned(), Point::describe),
            is_killed: self.watch.is_killed(),
            was_served,
            orders: self.watch.orders(),
            may_order_twice: point.is_some_and(Point::may_order_twice),
            after,
            steps: self.watch.steps(),
        }
    }
}

impl Ended {
    fn describe(&self) -> String {
        let after = match self.after {
            Some(after) => format!("certificate after {:.1} s", after.as_secs_f64()),
            None => "NO CERTIFICATE".to_owned(),
        };
        let killed = match (self.is_killed, self.was_served) {
            (true, false) => "",
            (true, true) => " (served before)",
            (false, _) => " (not reached)",
        };
        let Self { point, orders, .. } = self;
        format!("{point}{killed}: {after}, {orders} orders")
    }
}

/// Waits until nothing is left to do for a lineage.
async fn settles(catalog: &Catalog<'_>, name: &str) -> Result<bool> {
    let begun = Instant::now();
    while begun.elapsed() < SETTLING {
        if catalog.is_settled(name).await? {
            return Ok(true);
        }
        sleep(PAUSE).await;
    }
    Ok(false)
}

/// Servers that start at the same time.
const STARTING: usize = 2;
/// More than two claims take, one after the other.
const PATIENCE: Duration = Duration::from_secs(180);
const SETTLING: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);
