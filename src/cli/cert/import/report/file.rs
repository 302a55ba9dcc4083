//! File of `--report`: one JSON line for each pair, with places and names, never keys.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use sekisho_stores::own_file::{beside, create, remove};
use serde_json::Value;

use crate::terminal::failure::Result;

/// Report that is written beside its path, and takes that once it is whole.
pub(super) struct ReportFile {
    path: PathBuf,
    part: PathBuf,
    lines: BufWriter<File>,
}

impl ReportFile {
    pub(super) fn begin(path: &Path) -> Result<Self> {
        let part = beside(path, ".part");
        let made = remove(&part).and_then(|()| create(&part));
        Ok(Self {
            path: path.to_owned(),
            lines: BufWriter::new(made.with_context(|| part.display().to_string())?),
            part,
        })
    }

    pub(super) fn push(&mut self, line: &Value) -> Result<()> {
        writeln!(self.lines, "{line}").with_context(|| self.part.display().to_string())
    }

    /// Gives the report its name.
    pub(super) fn end(mut self) -> Result<()> {
        let ended = self.lines.flush().and_then(|()| fs::rename(&self.part, &self.path));
        ended.with_context(|| self.path.display().to_string())
    }
}
