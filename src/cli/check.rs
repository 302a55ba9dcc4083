//! `sekisho check`

use std::io::Write;
use std::path::Path;

use sekisho_server::config::Config;

use crate::cli::failure::{Ended, Result};
use crate::cli::open;
use crate::cli::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

pub(super) fn run(config: Option<&Path>) -> Result<Ended> {
    let config = Config::load(config)?;
    let opened = open::runtime()?.block_on(async {
        let opened = open::serving(&config).await?;
        if let Some(catalog) = &opened.catalog {
            // Reads from the file, which opening alone may not.
            catalog.position().await?;
        }
        anyhow::Ok(opened)
    })?;
    let mut output = Output::new();
    writeln!(output, "{} is valid", config.file.display())?;
    writeln!(output, "{} is there and opens with its keys", opened.shown)?;
    output.flush()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Reads the configuration, opens the store and tries the master key. It listens
nowhere, so it may run beside the server.

Example:
  sekisho check --config /etc/sekisho/sekisho.toml && systemctl restart sekisho";
