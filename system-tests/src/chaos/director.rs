//! Stops and restarts stores and servers, one after the other.

use std::rc::Rc;

use anyhow::{Context, Result};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;

use super::field::Field;
use super::plan::{Action, How, Phase, Store};
use super::setting::DOWNLOADS;
use super::stores::Stores;

pub(crate) struct Director {
    pub(crate) field: Rc<Field>,
    pub(crate) stores: Stores,
}

impl Director {
    /// Runs all phases and prints the result of each.
    pub(crate) async fn run(&self, phases: &[Phase]) -> Result<()> {
        for (index, phase) in phases.iter().enumerate() {
            let before = self.field.judge.borrow().counts.clone();
            self.field.judge.borrow_mut().counts.latency.reset();
            println!(
                "[{:6.1} s] {} of {}: {}",
                self.field.now().as_secs_f64(),
                index + 1,
                phases.len(),
                phase.action
            );
            self.phase(phase).await?;
            let counts = &self.field.judge.borrow().counts;
            println!("           {}", counts.since(&before));
            anyhow::ensure!(
                counts.cached > before.cached,
                "no cached host was visited in this phase: nothing was shown"
            );
        }
        Ok(())
    }

    async fn phase(&self, phase: &Phase) -> Result<()> {
        match phase.action {
            Action::Calm => sleep(phase.lasts).await,
            Action::Take(store, how) => self.outage(store, how, phase).await?,
            Action::Restart(server) => self.restart(server).await?,
        }
        sleep(phase.rests).await;
        Ok(())
    }

    async fn outage(&self, store: Store, how: How, phase: &Phase) -> Result<()> {
        // Changes travel through the catalog alone, not through Redis.
        let carries = store == Store::Postgres;
        self.field.breaks();
        if carries {
            let now = self.field.now();
            self.field.judge.borrow_mut().ledger.outage_begins(now);
        }
        self.stores.take(store, how).await?;
        sleep(phase.lasts).await;
        self.stores.bring_back(store, how).await?;
        if carries {
            let now = self.field.now();
            self.field.judge.borrow_mut().ledger.outage_ends(now);
        }
        self.field.mends();
        Ok(())
    }

    /// Restarts a server. Requests in flight at its SIGTERM must be answered.
    async fn restart(&self, number: usize) -> Result<()> {
        self.field.breaks();
        let server = &self.field.servers[number];
        let mut downloads = Vec::new();
        for _ in 0..DOWNLOADS_IN_FLIGHT {
            downloads.push(Download::begin(&self.field, number).await?);
        }
        server.tell_to_end()?;
        for download in downloads {
            if let Err(error) = download.finish().await {
                let what = format!("server {number}, a download at its restart: {error:#}");
                self.field.judge.borrow_mut().cut_off(what);
            }
        }
        server.ended().await?;
        server.start().await?;
        self.field.mends();
        Ok(())
    }
}

/// Request in flight: its answer has begun.
struct Download {
    go_on: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

impl Download {
    async fn begin(field: &Rc<Field>, server: usize) -> Result<Self> {
        let (address, _) = field.servers[server].serving().context("it serves")?;
        let (begun, has_begun) = oneshot::channel();
        let (go_on, may_go_on) = oneshot::channel();
        let clients = Rc::clone(field);
        let task = spawn_local(async move {
            let client = &clients.client;
            client.download(address, DOWNLOADS, begun, may_go_on).await
        });
        if has_begun.await.is_err() {
            task.await??;
            anyhow::bail!("a download ended before it began");
        }
        Ok(Self { go_on, task })
    }

    async fn finish(self) -> Result<()> {
        // A task that failed has dropped the receiver; its result says why.
        let _ = self.go_on.send(());
        self.task.await?
    }
}

const DOWNLOADS_IN_FLIGHT: usize = 8;
