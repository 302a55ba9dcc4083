//! Runs a server: until another process has taken over, or until it is shut down.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use sekisho_server::admin::ListenerHandle;
use sekisho_server::{NameServer, Phase, Shutdown};
use sekisho_stores::disk_cache::DiskCache;
use tokio::time::timeout;

use super::issuance::Issuance;
use super::{Serving, succession, tasks, zone};
use crate::config::Config;
use crate::handover::{Ends, Estate, Handover, Outcome, Signals, Watchdog};
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
        let (tasks, issuance, succession) = (self.tasks, self.issuance, self.succession);
        self.background.block_on(async {
            let admin = tasks.admin.as_ref();
            let answered = admin.map(|(_, admin)| admin.clone().drained());
            let file = admin.map(|(listener, _)| listener.handle());
            let has_feed = tasks.feed.is_some();
            let admin = tasks.start();
            let (beginning, ring, disk) = (issuance.clone(), self.ring, self.disk.clone());
            let (asked, kept) = (Arc::clone(&self.lookup), Arc::clone(&self.lookup));
            let (shown, noted) = (config.clone(), config.clone());
            let (before, record) = (succession.config_lines, Arc::clone(&succession.record));
            let estate = Estate {
                listeners: succession.listeners,
                admin: succession.admin,
                zones: succession.zones,
                disk_cache: self.disk,
                ticket_keys: Box::new(move || ring.keys()),
                hot_names: Arc::new(move || succession::hottest(&asked)),
                config_lines: Arc::new(move || succession::config_lines(&shown)),
                finished: Some(Box::pin(finish(answered, issuance.clone()))),
                let_go: Some(Box::new(move |takes_admin| {
                    Box::pin(let_go(admin, takes_admin, disk, issuance))
                })),
                give_back: Some(Box::new(move || {
                    // While the store is down, open connections are answered from the cache.
                    if kept.stats().store_available {
                        kept.give_back();
                    }
                    self.responder.give_back();
                })),
            };
            let warm = succession::warm(self.lookup, succession.hot_names, has_feed);
            let handover = Handover {
                program: succession.program,
                launcher: succession.launcher,
                estate,
                older: succession.older,
                predecessor: succession.predecessor,
                requests: succession.requests,
                signals,
                thread: Some(thread),
                shutdown: self.shutdown.clone(),
                reopen,
                warm: Some(Box::pin(warm)),
                begin: Some(Box::new(move || {
                    begin(beginning.as_deref(), self.zone, file);
                    succession::note_changes(noted, before, record);
                })),
                drain: config.limits.drain,
                timeout: config.handover,
                takes_admin: succession.takes_admin,
                record: succession.record,
                watchdog: Watchdog::new(Box::new(self.server.turns())),
                ends: Ends::default(),
                asked: None,
            };
            handover.run(self.server.run(self.shutdown)).await
        })
    }

    /// Serves until it is shut down, and never hands over.
    pub(crate) fn run(self) -> Result<()> {
        begin(self.issuance.as_deref(), self.zone, None);
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

/// Begins what only one process may do: orders, answers to DNS questions, and to remove the
/// admin listener's file.
fn begin(
    issuance: Option<&Issuance>,
    zone: Option<(NameServer, Shutdown)>,
    file: Option<ListenerHandle>,
) {
    if let Some(file) = file {
        file.take_file();
    }
    if let Some(Err(error)) = issuance.map(Issuance::start) {
        tracing::error!(%error, "no certificate is ordered or renewed");
    }
    if let Some(Err(error)) = zone.map(|(server, shutdown)| zone::start(server, shutdown)) {
        tracing::error!(%error, "no question about challenges is answered");
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
