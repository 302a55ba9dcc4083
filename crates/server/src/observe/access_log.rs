//! Access log: one line per request, to a file or standard output.
//!
//! A request has an `Entry` while there is an access log. Dropping the entry,
//! at the end of the answer's body, where the client left or at the end of an upgraded
//! connection, writes the line.
//! A thread of its own writes lines from a bounded queue: no request waits for
//! it.

mod combined;
mod entry;
mod handover;
mod json;
mod request_id;
mod text;
mod time;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use sekisho_certs::LogLimiter;
use sekisho_certs::metrics::{Counter, Registry};

pub(crate) use entry::{Connection, Entry, Logged};
pub(crate) use handover::Handover;
pub(crate) use request_id::X_REQUEST_ID;

use crate::observe::line_writer::{self, File, LineWriter};

/// Where the access log is written to, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Target of the lines.
    pub target: Target,
    /// Format of the lines.
    pub format: Format,
}

/// Target of the access log's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Standard output.
    Stdout,
    /// A file, created with mode 640.
    File(PathBuf),
}

/// Format of the access log's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object per line.
    Json,
    /// The combined format of Apache and nginx, and further fields behind it.
    Combined,
}

/// Open access log.
#[derive(Debug)]
pub struct AccessLog {
    format: Format,
    lines: LineWriter,
    full: LogLimiter,
}

impl AccessLog {
    /// Opens the target and starts the thread that writes.
    ///
    /// # Errors
    /// If the file can't be opened, or the thread not started.
    pub fn start(settings: &Settings) -> io::Result<Arc<Self>> {
        let file = match &settings.target {
            Target::Stdout => File::of(&io::stdout())?,
            Target::File(path) => File::append(path)?,
        };
        Ok(Arc::new(Self {
            format: settings.format,
            lines: LineWriter::start("access log", file, MAX_BYTES, Counter::default())?,
            full: LogLimiter::default(),
        }))
    }

    /// Checks that the target can be opened, without creating the file.
    ///
    /// # Errors
    /// The system's.
    pub fn check(settings: &Settings) -> io::Result<()> {
        match &settings.target {
            Target::Stdout => Ok(()),
            Target::File(path) => line_writer::check(path),
        }
    }

    /// Opens the file again, behind the line that is being written. If that fails,
    /// the open file is kept. Does not wait.
    pub fn reopen(&self) {
        self.lines.reopen();
    }

    /// Waits until earlier lines are written, at most 1 s.
    pub fn flush(&self) {
        self.lines.flush();
    }

    /// Registers the metric of lines that were dropped.
    pub fn register(&self, registry: &mut Registry) {
        let help = "Lines of the access log that were dropped: not written, or not fast enough";
        let dropped = self.lines.dropped().clone();
        registry.register("access_log_lines_dropped", help, dropped);
    }

    fn write(&self, entry: &Entry) {
        let mut line = Vec::with_capacity(TYPICAL_LINE);
        match self.format {
            Format::Json => json::write(&mut line, entry),
            Format::Combined => combined::write(&mut line, entry),
        }
        line.push(b'\n');
        if !self.lines.push(line)
            && let Some(others) = self.full.allow()
        {
            tracing::warn!(
                others,
                "a line of the access log was dropped: lines come faster than they are written"
            );
        }
    }
}

/// Bytes of lines that are not written yet. Most lines have 500.
const MAX_BYTES: usize = 4 << 20;
/// Bytes that most lines have room in.
const TYPICAL_LINE: usize = 640;

#[cfg(test)]
mod tests;
