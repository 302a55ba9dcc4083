//! The handshake hook: `[hook]` between the server and a script.

mod clients;
mod imports;

use std::fs;
use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use sekisho_certs::store::BoxFuture;
use sekisho_certs::{Lookup, NeverObtain, Store, metrics};
use sekisho_hook::{Hello, Report, Settings};
use sekisho_server::hook::{Answer, Question};
use sekisho_server::tickets::Ring;
use sekisho_server::{Publisher, VirtualHost, hook as server};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::config::{Config, Hook as Section};
use crate::wiring::open::lookup;
use clients::Clients;
use imports::Imports;
pub(crate) use imports::Served;

/// Script of `[hook]`, and what it may cost its clients.
pub(crate) struct Opened {
    hook: Arc<Hook>,
    /// Lookups by a script, charged to the client as the server charges its own.
    pub(crate) clients: server::Clients,
    /// `[server] handshake_timeout`.
    handshake: Duration,
}

impl Opened {
    /// Returns what a server is built from.
    pub(crate) fn parts(&self) -> (Arc<dyn server::Hook>, server::Clients) {
        (Arc::clone(&self.hook) as _, self.clients.clone())
    }

    /// Runs the script for a made-up hello, and reports what it did.
    pub(crate) async fn report(
        &self,
        hello: &Arc<Hello>,
    ) -> (sekisho_hook::Answer<Served>, Report) {
        let deadline = before(Instant::now() + self.handshake);
        self.hook.0.report(Arc::clone(hello), deadline).await
    }

    /// Registers the metrics of the script's runs.
    pub(crate) fn register(&self, registry: &mut metrics::Registry) {
        self.hook.0.register(registry);
    }
}

/// Compiled script, with all that it reaches.
struct Hook(sekisho_hook::Hook<Imports>);

/// Reads and compiles the script of `[hook]`, if there is one. Connects to nothing yet:
/// `runtime` drives later connections. With `tries`, each run verifies the signatures of its
/// chains.
///
/// # Errors
/// Says which file can't be used, or the line of the script that is wrong.
pub(crate) fn open(
    config: &Config,
    publisher: Arc<Publisher>,
    lookup: &Arc<Lookup<VirtualHost>>,
    runtime: &Handle,
    tries: bool,
) -> anyhow::Result<Option<Opened>> {
    let Some(section) = &config.hook else {
        return Ok(None);
    };
    let base = config.file.parent().expect("an absolute file has a folder");
    // Connections are made of the runtime that is entered.
    let _entered = runtime.enter();
    let clients = Clients::new(
        &section.sql,
        section.timeout,
        section.ca.as_deref(),
        base.into(),
        runtime,
    )?;
    let lookups = server::Clients::new(lookup, &config.limits);
    let imports = Imports {
        clients,
        budget: lookups.clone(),
        publisher,
        tries,
    };
    let hook = sekisho_hook::Hook::compile(settings(config, section)?, imports)?;
    Ok(Some(Opened {
        hook: Arc::new(Hook(hook)),
        clients: lookups,
        handshake: config.limits.handshake,
    }))
}

/// Compiles the script of `[hook]`, if there is one, and runs its function `test` with
/// this store. The current runtime drives its connections.
///
/// # Errors
/// As [`open`], or where the test failed.
pub(crate) async fn check(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<()> {
    let Some(opened) = open_alone(config, store)? else {
        return Ok(());
    };
    match opened.hook.0.test().await.and_then(|report| report.error) {
        Some(error) => bail!("the script's test failed: {error}"),
        None => Ok(()),
    }
}

/// Opens the script like [`open`], with a lookup of its own on this store and without a
/// server, to try it. No certificate is obtained. The current runtime drives its connections.
///
/// # Errors
/// As [`open`].
pub(crate) fn open_alone(config: &Config, store: Arc<dyn Store>) -> anyhow::Result<Option<Opened>> {
    if config.hook.is_none() {
        return Ok(None);
    }
    let guard = Arc::new(config.guard(Arc::default()));
    let publisher = Publisher::new(Arc::new(Ring::random()), config.site.clone(), guard);
    let publisher = Arc::new(publisher);
    let lookup = lookup(config, store, &publisher, Arc::new(NeverObtain));
    open(config, publisher, &lookup, &Handle::current(), true)
}

impl server::Hook for Hook {
    fn answer<'a>(&'a self, question: Question) -> BoxFuture<'a, Answer> {
        let hello = Arc::new(Hello {
            server_name: question.server_name,
            facts: question.facts,
        });
        let deadline = before(question.deadline);
        Box::pin(async move { answer(self.0.ask(hello, deadline).await) })
    }
}

/// Leaves an eighth of the time to `deadline` to what `on_error` chooses.
fn before(deadline: Instant) -> Instant {
    let left = deadline.saturating_duration_since(Instant::now());
    deadline - left / 8
}

fn answer(answer: sekisho_hook::Answer<Served>) -> Answer {
    Answer {
        choice: answer.choice,
        until: answer.until,
        failed: answer.source == sekisho_hook::Source::Failed,
        charge: answer.charge,
    }
}

fn settings(config: &Config, section: &Section) -> anyhow::Result<Settings> {
    let script = &section.script;
    let shown = script.display();
    let mut source = String::new();
    let file = fs::File::open(script).with_context(|| format!("[hook] script: {shown}"))?;
    // A longer script is refused by the compiler of the hook.
    file.take(MAX_SCRIPT)
        .read_to_string(&mut source)
        .with_context(|| format!("[hook] script: {shown}"))?;
    Ok(Settings {
        name: shown.to_string(),
        source,
        folders: section.folders.clone(),
        on_error: section.on_error,
        memory: section.memory,
        cpu: section.cpu,
        deadline: section.timeout,
        in_flight: section.waiting,
        waiting_per_prefix: section.waiting_per_prefix(),
        region: config.hook_memory(),
        cache: Section::CACHE,
        keep: KEEP,
        absent: ABSENT,
        failed: FAILED,
    })
}

/// How long a connection keeps a choice that no `tls:cached` limits: the default of
/// `[cache] fresh`.
const KEEP: Duration = Duration::from_mins(1);

/// How long `tls:cached` remembers that its function chose nothing: the default of
/// `[cache] absent`.
const ABSENT: Duration = Duration::from_secs(5);

/// How long `tls:cached` remembers that its function failed: a store that is back serves
/// within a second.
const FAILED: Duration = Duration::from_secs(1);

/// Bytes of a script that are read: more than are taken.
const MAX_SCRIPT: u64 = (1 << 20) + 1;
