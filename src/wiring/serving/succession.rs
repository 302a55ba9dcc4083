//! What a hand-over takes from the server's parts, and what they get from one.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use sekisho_certs::store::FeedState;
use sekisho_certs::{HostName, Lookup};
use sekisho_server::admin::{Listener, Reply, Uncontrolled};
use sekisho_server::metrics::Metrics;
use sekisho_server::{Server, VirtualHost};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, timeout};

use crate::config::Config;
use crate::handover::{
    Control, Launcher, OlderProcesses, Predecessor, Program, Record, Request, Taken, ZoneSocket,
};
use crate::process;
use crate::terminal::failure::Result;

/// Function by which the admin listener asks for a hand-over.
pub(super) type Controls =
    Box<dyn Fn(Control) -> Reply<std::result::Result<String, Uncontrolled>> + Send + Sync>;

/// Hand-over of a server that is being built.
pub(super) struct Succession {
    pub(super) program: Program,
    pub(super) launcher: Launcher,
    pub(super) older: OlderProcesses,
    pub(super) predecessor: Option<Predecessor>,
    pub(super) hot_names: Vec<String>,
    asking: mpsc::Sender<Request>,
    pub(super) requests: mpsc::Receiver<Request>,
    pub(super) listeners: Vec<(SocketAddr, OwnedFd)>,
    pub(super) admin: Option<(String, OwnedFd)>,
    pub(super) zones: Vec<ZoneSocket>,
    /// The admin listener's socket came from another process.
    pub(super) takes_admin: bool,
    pub(super) record: Arc<Record>,
    /// Values of the configuration of the process before, a line each.
    pub(super) config_lines: Vec<String>,
}

impl Succession {
    /// Takes what belongs to no other part, on the background runtime. Starts the thread
    /// that may bind low ports for a new process.
    pub(super) fn new(
        background: &Runtime,
        taken: &mut Taken,
        metrics: &Arc<Metrics>,
    ) -> Result<Self> {
        let _enter = background.enter();
        let predecessor = taken.predecessor.take();
        let cut = predecessor.as_ref().map_or(0, |one| one.complete.cut);
        let record = Record::new(Arc::clone(metrics), predecessor.as_ref());
        let (asking, requests) = mpsc::channel(1);
        Ok(Self {
            program: Program::this(),
            launcher: Launcher::start().context("no thread for hand-overs")?,
            older: OlderProcesses::of(std::mem::take(&mut taken.older), cut)?,
            predecessor,
            hot_names: std::mem::take(&mut taken.hot_names),
            asking,
            requests,
            listeners: Vec::new(),
            admin: None,
            zones: Vec::new(),
            takes_admin: false,
            record: Arc::new(record),
            config_lines: std::mem::take(&mut taken.config_lines),
        })
    }

    /// Takes the socket that another process gave for the admin listener's address.
    pub(super) fn given_admin(config: &Config, taken: &mut Taken) -> Option<OwnedFd> {
        let address = config.listen.admin.as_ref()?.to_string();
        let (_, socket) = taken.admin.take_if(|(of, _)| *of == address)?;
        Some(socket)
    }

    /// Keeps a copy of each listening socket. The admin listener's address is the configured
    /// one.
    pub(super) fn keep_sockets(
        &mut self,
        config: &Config,
        server: &Server,
        admin: Option<&Listener>,
    ) -> Result<()> {
        let context = "listening sockets can't be kept for a hand-over";
        self.listeners = server.listeners().context(context)?;
        if let Some((address, listener)) = config.listen.admin.as_ref().zip(admin) {
            let socket = listener.handle().descriptor().context(context)?;
            self.admin = Some((address.to_string(), socket));
        }
        Ok(())
    }

    /// Makes the function by which the admin listener asks for a hand-over.
    pub(super) fn control(&self) -> Controls {
        let asking = self.asking.clone();
        Box::new(move |kind| {
            let asking = asking.clone();
            Box::pin(async move { ask(&asking, kind).await })
        })
    }
}

/// Asks for a hand-over and waits for the outcome.
async fn ask(
    asking: &mpsc::Sender<Request>,
    kind: Control,
) -> std::result::Result<String, Uncontrolled> {
    let (reply, outcome) = oneshot::channel();
    // The queue has one place, and none in a process that has handed over.
    let asked = asking.try_send(Request { kind, reply });
    asked.map_err(|_| Uncontrolled::Busy)?;
    let outcome = outcome.await.map_err(|_| Uncontrolled::Busy)?;
    outcome.map_err(Uncontrolled::Failed)
}

/// Lists what clients ask for most, the hottest first.
pub(super) fn hottest(lookup: &Lookup<VirtualHost>) -> Vec<String> {
    let names = lookup.hottest(HOT_NAMES);
    names.iter().map(ToString::to_string).collect()
}

/// Reads the hottest names: until [`WARM_FIRST`] before the server says that it serves, and
/// the others beside clients.
pub(super) async fn warm(lookup: Arc<Lookup<VirtualHost>>, names: Vec<String>, has_feed: bool) {
    if names.is_empty() {
        return;
    }
    let begun = Instant::now();
    let names = names.into_iter();
    let names: Vec<_> = names
        .filter_map(|name| HostName::parse(&name).ok())
        .collect();
    let warming = tokio::spawn(async move {
        // What is read before the feed vouches for it is read again.
        let is_late = || !has_feed || begun.elapsed() >= WARM_FIRST;
        while lookup.stats().feed != FeedState::Healthy && !is_late() {
            sleep(FEED_CHECK).await;
        }
        lookup.warm(names, WARM_AT_ONCE).await;
    });
    // The task goes on without this one.
    let _ = timeout(WARM_FIRST, warming).await;
}

/// Lists the values of a configuration. It takes milliseconds.
pub(super) fn config_lines(config: &Config) -> Vec<String> {
    let sections = config.effective();
    let lines = sections.iter().flat_map(|section| {
        let set = section.entries.iter().filter(|entry| entry.value.is_some());
        set.map(|entry| format!("[{}] {}", section.path, entry.assignment()))
    });
    lines.collect()
}

/// Notes what changed in the configuration since the process before, if there was one.
pub(super) fn note_changes(config: Config, before: Vec<String>, record: Arc<Record>) {
    if before.is_empty() {
        return;
    }
    drop(spawn_blocking(move || {
        record.changed(changed(&before, &config_lines(&config)));
        // It ran code that serving does not need.
        process::give_up_code_of_the_start();
    }));
}

/// Lists lines that only one of two configurations has: `-` and those of the one before,
/// `+` and those of this one.
fn changed(before: &[String], now: &[String]) -> Vec<String> {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (before.iter().collect(), now.iter().collect());
    let gone = before.iter().filter(|line| !new.contains(line));
    let come = now.iter().filter(|line| !old.contains(line));
    let gone = gone.map(|line| format!("- {line}"));
    gone.chain(come.map(|line| format!("+ {line}"))).collect()
}

/// Names that a new process reads first.
const HOT_NAMES: usize = 10_000;
/// Reads at once, beside those that clients wait for.
const WARM_AT_ONCE: usize = 32;
/// Time for the hottest names before the new process serves: the old one does meanwhile.
const WARM_FIRST: Duration = Duration::from_millis(100);
const FEED_CHECK: Duration = Duration::from_millis(1);
