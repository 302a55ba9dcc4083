//! Sets up the log.

mod filter;
mod queue;

use std::env;
use std::io;
use std::panic;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use sekisho_certs::metrics::Registry;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::failure::Result;

pub(super) use queue::Flush;

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Sends log lines to standard error, filtered by the environment. A separate
/// thread writes them: no other thread waits for a slow reader.
pub(super) fn start(format: Format) -> Result<Flush> {
    let text = match env::var(FILTER) {
        Ok(text) => text,
        Err(env::VarError::NotPresent) => filter::DEFAULT.to_owned(),
        Err(env::VarError::NotUnicode(_)) => return Err(anyhow!("{FILTER} is not UTF-8")),
    };
    let filter = filter::read(&text).context(FILTER)?;
    let (queue, flush) = queue::start(io::stderr()).context("the log can't be started")?;
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(queue);
    match format {
        Format::Text => lines
            .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
            .finish()
            .with(filter)
            .try_init(),
        Format::Json => lines.json().finish().with(filter).try_init(),
    }
    .map_err(|error| anyhow!("the log can't be started: {error}"))?;
    // Replaces the standard hook, which blocks the panicking thread on standard
    // error.
    panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
    Ok(flush)
}

/// Registers the metric of lines that were dropped.
pub(super) fn register(registry: &mut Registry) {
    let help = "Log lines that were dropped, since they were not read fast enough";
    registry.register("log_lines_dropped", help, queue::DROPPED.clone());
}

/// Such as `warn`, or `info,sekisho_certs=debug`.
const FILTER: &str = "SEKISHO_LOG";
