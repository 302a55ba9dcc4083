//! Runs a server: until another process has taken over, or until it is shut down.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use sekisho_server::Phase;
use sekisho_server::admin::ListenerHandle;
use sekisho_stores::disk_cache::DiskCache;
use tokio::time::timeout;

use super::issuance::Issuance;
use super::{Serving, succession, tasks};
use crate::config::Config;
use crate::handover::{Outcome, Signals};
use crate::process::{self, SignalThread};
use crate::terminal::failure::Result;

impl Serving {
    /// Serves until a signal begins the drain, or until another process has taken over and
    /// the connections of this one have ended.
    pub(crate) fn run_until_signalled(
        self,
        config: &Config,
        thread: SignalThread,
    ) -> Result<Outcome> {
        let (shutdown, access_log) = (self.shutdown.clone(), self.access_log.clone());
        let enter = self.background.enter();
        // The signal handlers come first: a reader of the next line may send a signal at
        // once.
        let signals = Signals::install().context("signals can't be waited for")?;
        drop(enter);
        self.announce(config);
        let left = self.serve(config, signals, thread)?;
        if let Some(log) = access_log {
            log.flush();
        }
        if !left.is_replaced && shutdown.phase() == Phase::Ending {
            bail!("ended at once by a second signal");
        }
        tracing::info!("ended");
        Ok(left)
    }

    /// Serves, and hands over where that is asked for.
    fn serve(self, config: &Config, signals: Signals, thread: SignalThread) -> Result<Outcome> {
        let reopen = self.access_log.map(|log| {
            let reopen: Box<dyn Fn() + Send> = Box::new(move || log.reopen());
            reopen
        });
        let (tasks, issuance) = (self.tasks, self.issuance);
        self.background.block_on(async {
            let answered = tasks
                .admin
                .as_ref()
                .map(|(_, admin)| admin.clone().drained());
            let file = tasks.admin.as_ref().map(|(listener, _)| listener.handle());
            let has_feed = tasks.feed.is_some();
            let admin = tasks.start();
            let (beginning, ring, lookup) = (issuance.clone(), self.ring, self.lookup.clone());
            let parts = succession::Parts {
                lookup: self.lookup,
                shutdown: self.shutdown.clone(),
                signals,
                thread,
                reopen,
                ticket_keys: Box::new(move || ring.keys()),
                disk: self.disk.clone(),
                has_feed,
                begin: Box::new(move || begin(beginning.as_deref(), file)),
                finished: Box::pin(finish(answered, issuance.clone())),
                let_go: Box::new(move |takes_admin| {
                    Box::pin(let_go(admin, takes_admin, self.disk, issuance))
                }),
                give_back: Box::new(move || {
                    // While the store is down, open connections are answered from the cache.
                    if lookup.stats().store_available {
                        lookup.give_back();
                    }
                    self.responder.give_back();
                }),
                turns: Box::new(self.server.turns()),
            };
            let handover = self.succession.handover(config, parts);
            handover.run(self.server.run(self.shutdown)).await
        })
    }

    /// Serves until it is shut down, and never hands over.
    pub(crate) fn run(self) -> Result<()> {
        begin(self.issuance.as_deref(), None);
        self.background.block_on(async {
            drop(self.tasks.start());
            self.server.run(self.shutdown).await
        })?;
        if let Some(log) = self.access_log {
            log.flush();
        }
        Ok(())
    }
}

/// Begins what only one process may do: orders, and to remove the admin listener's file.
fn begin(issuance: Option<&Issuance>, file: Option<ListenerHandle>) {
    if let Some(file) = file {
        file.take_file();
    }
    if let Some(Err(error)) = issuance.map(Issuance::start) {
        tracing::error!(%error, "no certificate is ordered or renewed");
    }
    // The start ends here.
    process::give_up_code_of_the_start();
}

/// Lets go of what only one process may have. Another one that takes the admin listener's
/// socket keeps its file.
async fn let_go(
    admin: Option<tasks::Serving>,
    takes_admin: bool,
    disk: Option<Arc<DiskCache>>,
    issuance: Option<Arc<Issuance>>,
) {
    if let Some(issuance) = issuance {
        issuance.issuer.stop_claiming();
    }
    if let Some(admin) = admin
        && let Some(listener) = admin.leave().await
        && takes_admin
    {
        listener.handle().leave_file();
    }
    if let Some(disk) = disk
        && let Err(error) = disk.retire().await
    {
        tracing::warn!(%error, "the disk cache is closed late");
    }
}

/// Waits until who asked for a hand-over has the answer, and until orders under way have
/// ended: a claim that is left holds its lineage for up to 60 s.
async fn finish(answered: Option<impl Future<Output = ()>>, issuance: Option<Arc<Issuance>>) {
    if let Some(answered) = answered {
        answered.await;
    }
    if let Some(issuance) = issuance {
        let _ = timeout(ORDERS, issuance.issuer.ended()).await;
    }
}

/// Longest wait of a process without connections for its orders. Most take less.
const ORDERS: Duration = Duration::from_secs(60);
