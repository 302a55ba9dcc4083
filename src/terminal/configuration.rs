//! Loads the configuration for commands.

use std::path::Path;

use anyhow::anyhow;
use sekisho_certs::printable;

use crate::config::{Config, Exposure};
use crate::terminal::failure::{self, Result};

/// Reads the configuration for a command. Standard error names a file that was
/// found, not given, and warns of exposures.
pub(crate) fn load(file: Option<&Path>) -> Result<Config> {
    let config = Config::load(file)?;
    if file.is_none() {
        let shown = config.file.display().to_string();
        eprintln!("using {}", printable(&shown));
    }
    for Exposure { problem, hint } in config.exposures()? {
        failure::warn(&anyhow!("{}: {problem}", config.file.display()), hint);
    }
    Ok(config)
}
