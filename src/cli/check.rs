//! `sekisho check`

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use sekisho_certs::{Clock, HostName, Store};
use sekisho_server::config::{Config, StoreUrl};
use sekisho_server::tickets::{Keeper, Ring, Source};

use crate::cli::failure::{Ended, Result};
use crate::cli::open;
use crate::cli::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) fn run(config: Option<&Path>) -> Result<Ended> {
    let config = Config::load(config)?;
    check_folders(&config.store)?;
    open::admin_token(&config)?;
    let opened = open::runtime()?.block_on(async {
        let opened = open::serving(&config, None).await?;
        if let Some(catalog) = &opened.catalog {
            // Reads from the file, which opening alone may not.
            catalog.position().await?;
            if let Some(url) = &config.level {
                open::reach_level(url).await?;
            }
        } else {
            match &config.store {
                StoreUrl::Redis(url) => open::reach(url).await?,
                _ => ask(&*opened.store).await?,
            }
            if let Some(file) = &config.tickets {
                let ring = Arc::new(Ring::random());
                let mut keeper = Keeper::new(Source::File(file.clone()), ring, Clock::System);
                keeper.refresh().await.context("[tickets] key_file")?;
            }
        }
        anyhow::Ok(opened)
    })?;
    let mut output = Output::new();
    writeln!(output, "{} is valid", config.file.display())?;
    let keys = opened.catalog.map_or("", |_| " and opens with its keys");
    writeln!(output, "{} is there{keys}", opened.shown)?;
    if let Some(url) = &config.level {
        writeln!(output, "{url} is there")?;
    }
    output.flush()?;
    Ok(Ended::Done)
}

/// A plain store is there if it knows that nobody has this name, or has
/// something that could be served for it.
async fn ask(store: &dyn Store) -> Result<()> {
    let name = HostName::parse(NOBODY).expect("it is a name");
    store.find(&name).await?;
    Ok(())
}

/// In a folder that is not there every host would be absent.
fn check_folders(store: &StoreUrl) -> Result<()> {
    let StoreUrl::Files { pattern } = store else {
        return Ok(());
    };
    for path in pattern.split(',') {
        let fixed = path.split("{host}").next().unwrap_or_default();
        let folder = fixed.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = Path::new("/").join(folder);
        fs::read_dir(&folder)
            .with_context(|| format!("the store's folder {}", folder.display()))?;
    }
    Ok(())
}

/// Under a domain that nobody can have (RFC 2606, section 2).
const NOBODY: &str = "sekisho-check.invalid";
const EXAMPLES: &str = "\
Reads the configuration and the files of keys and tokens that it names, opens
the store and tries the master key; asks a store that others write for a host
that nobody has, sekisho-check.invalid. It listens nowhere, so it may run beside
the server.

Example:
  sekisho check --config /etc/sekisho/sekisho.toml && systemctl restart sekisho";
