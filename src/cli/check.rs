//! `sekisho check`

mod programs;
mod sites;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use sekisho_certs::Clock;
use sekisho_server::tickets::{Keeper, Ring, Source};
use tokio::runtime::Handle;

use crate::config::Config;
use crate::terminal::configuration;
use crate::terminal::failure::{self, Ended, Result};
use crate::terminal::output::Output;
use crate::wiring::hook;
use crate::wiring::open::{self, Opened};
use crate::wiring::owner::User;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Fail while a store can't be reached, too
    #[arg(long)]
    reachable: bool,

    /// Fail while hosts are not served as their records say, too
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(config: Option<&Path>, args: &Args) -> Result<Ended> {
    let config = configuration::load(config)?;
    warn_of_root(&config);
    open::admin_token(&config)?;
    open::access_log::check(&config)?;
    let (opened, unreachable, refused) = open::runtime()?.block_on(async {
        let opened = open::serving(&config, open::Disk::Without).await?;
        open::issuer(&config, &opened)?;
        let unreachable = probe(&config, &opened).await?;
        let catalog = opened.catalog.as_ref();
        let refused = match catalog.filter(|_| unreachable.store.is_none()) {
            Some(sealer) => sites::refused(sealer.catalog().as_ref(), &config).await?,
            None => sites::Refused::default(),
        };
        hook::check(&config, Arc::clone(&opened.store) as _).await?;
        anyhow::Ok((opened, unreachable, refused))
    })?;
    let mut output = Output::new();
    writeln!(output, "{} is valid", config.file.display())?;
    if unreachable.store.is_none() {
        let keys = opened.catalog.map_or("", |_| " and opens with its keys");
        writeln!(output, "{} is there{keys}", config.store.url)?;
    }
    let ignored = open::ignores_redis(&config);
    if ignored {
        failure::warn(&anyhow!(open::IGNORED), "remove [cache] redis");
    }
    let used = config.redis_cache.as_ref().filter(|_| !ignored);
    if let Some(url) = used.filter(|_| unreachable.redis_cache.is_none()) {
        writeln!(output, "{url} is there")?;
    }
    refused.write(&mut output)?;
    programs::write(&config, &mut output)?;
    output.flush()?;
    for error in unreachable.store.into_iter().chain(unreachable.redis_cache) {
        if args.reachable {
            return Err(error);
        }
        let hint = "'sekisho serve' starts all the same; --reachable makes this an error";
        failure::warn(&error, hint);
    }
    Ok(Ended::of(!(args.strict && refused.any())))
}

/// Says that a server of another user may not be able to do what root can.
fn warn_of_root(config: &Config) {
    let store = config.store.url.database();
    let folder = store.and_then(Path::parent);
    if let Some(User { name, .. }) = folder.and_then(User::other_owner) {
        let what = anyhow!("root checks this, but the folder of the store belongs to {name}");
        let hint = format!("'sudo -u {name} sekisho check' finds what {name} can't open");
        failure::warn(&what, &hint);
    }
}

/// Reasons why stores can't be reached. A server would start all the same.
#[derive(Default)]
struct Unreachable {
    store: Option<anyhow::Error>,
    /// `[cache] redis`.
    redis_cache: Option<anyhow::Error>,
}

/// Calls each store. Permanent failures are errors.
async fn probe(config: &Config, opened: &Opened) -> Result<Unreachable> {
    let mut unreachable = Unreachable::default();
    let Some(sealer) = &opened.catalog else {
        // No answer of an endpoint keeps a server from starting, which calls it
        // only for clients.
        let url = &config.store.url;
        let reached = sekisho_stores::probe(url, &*opened.store, &Handle::current()).await;
        unreachable.store = reached.err().map(|error| anyhow!("{url}: {error}"));
        if let Some(file) = &config.tickets {
            let ring = Arc::new(Ring::random());
            let mut keeper = Keeper::new(Source::File(file.clone()), ring, Clock::System);
            keeper.refresh().await.context("[tickets] key")?;
        }
        return Ok(unreachable);
    };
    // Reads a record: opening the file alone may not read it.
    match sealer.catalog().head().await {
        Err(error) if error.is_retryable() => unreachable.store = Some(error.into()),
        other => drop(other?),
    }
    let used = config.redis_cache.as_ref();
    if let Some(url) = used.filter(|_| !open::ignores_redis(config)) {
        unreachable.redis_cache = open::connect_cache(url).await.err();
    }
    Ok(unreachable)
}

const EXAMPLES: &str = "\
Reads the configuration and the files of keys and tokens that it names, opens
the store and tries the master key; asks a store that others write for a host
that nobody has, sekisho-check.invalid. Lists the hosts of a catalog whose site
lies outside of [sites] allow, which are answered with 503, and those whose site
or client CA can't be used; with --strict it fails if there are any. Compiles the
script of [hook], and runs its function test, if it has one. Fails on what
'sekisho serve' would fail on; a store that can't be reached is a warning, or an
error with --reachable. It listens nowhere, so it may run beside the server.

Examples:
  sudo -u sekisho sekisho check && systemctl reload sekisho
  sekisho check --reachable --strict";
