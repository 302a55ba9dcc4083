//! Where log lines go.

use std::env;
use std::io;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

use crate::cli::failure::Result;

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Sends log lines to standard error, filtered by the environment.
pub(super) fn start(format: Format) -> Result<()> {
    let filter = match env::var(FILTER) {
        Ok(text) => EnvFilter::try_new(text).context(FILTER)?,
        Err(env::VarError::NotPresent) => EnvFilter::new("info"),
        Err(env::VarError::NotUnicode(_)) => return Err(anyhow!("{FILTER} is not UTF-8")),
    };
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr);
    match format {
        Format::Text => lines
            .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
            .try_init(),
        Format::Json => lines.json().try_init(),
    }
    .map_err(|error| anyhow!("the log can't be started: {error}"))
}

/// Such as `warn`, or `info,sekisho_certs=debug`.
const FILTER: &str = "SEKISHO_LOG";
