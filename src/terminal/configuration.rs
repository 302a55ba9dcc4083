//! Loads the configuration for commands.

use std::path::Path;

use anyhow::anyhow;
use sekisho_certs::printable;

use crate::config::{Config, ConfigError, Exposure};
use crate::terminal::failure::{self, Result};

/// Reads the configuration for a command that only asks the server. Mistakes elsewhere than in
/// the keys of the admin listener are warnings: the server runs with an earlier configuration.
pub(crate) fn load_listener(file: Option<&Path>) -> Result<Config> {
    let error = match Config::load(file) {
        Ok(config) => return Ok(config),
        Err(error) => error,
    };
    let ConfigError::Invalid { file, .. } = &error else {
        return Err(error.into());
    };
    let Some(config) = Config::of_listener(file) else {
        return Err(error.into());
    };
    for line in error.lines() {
        let hint = "the server runs with the configuration that it read before";
        failure::warn(&anyhow!(line), hint);
    }
    Ok(config)
}

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
