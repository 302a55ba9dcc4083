//! Sets up the log.

mod escape;
mod filter;

use std::env;
use std::io::{self, Write};
use std::panic;
use std::sync::LazyLock;

use anyhow::{Context, anyhow};
use clap::ValueEnum;
use sekisho_certs::metrics::{Counter, Registry};
use sekisho_server::line_writer::{File, LineWriter};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::terminal::failure::Result;

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON object per line
    Json,
}

/// Guard that waits, when dropped, until earlier lines are written, at most 1 s.
pub(crate) struct Flush(LineWriter);

impl Drop for Flush {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Sends log lines to standard error, filtered by the environment. A separate
/// thread writes them: no other thread waits for a slow reader.
pub(crate) fn start(format: Format) -> Result<Flush> {
    let text = match env::var(FILTER) {
        Ok(text) => text,
        Err(env::VarError::NotPresent) => filter::DEFAULT.to_owned(),
        Err(env::VarError::NotUnicode(_)) => return Err(anyhow!("{FILTER} is not UTF-8")),
    };
    let filter = filter::read(&text).context(FILTER)?;
    let started = File::of(&io::stderr())
        .and_then(|file| LineWriter::start("log", file, MAX_BYTES, DROPPED.clone()));
    let writer = started.context("the log can't be started")?;
    let flush = Flush(writer.clone());
    let lines = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || Lines(writer.clone()));
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

struct Lines(LineWriter);

/// The subscriber hands over each line in one call.
impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.push(escape::one_line(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Registers the metric of lines that were dropped.
pub(crate) fn register(registry: &mut Registry) {
    let help = "Log lines that were dropped: not written, or not fast enough";
    registry.register("log_lines_dropped", help, DROPPED.clone());
}

/// Lines that were dropped since the start.
static DROPPED: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Bytes of lines that are not written yet: a burst in which all hosts fail at once. Most
/// have 200 bytes; the longest carry a request's path.
const MAX_BYTES: usize = 1 << 20;

/// Such as `warn`, or `info,sekisho_certs=debug`.
const FILTER: &str = "SEKISHO_LOG";
