//! How the process that started us knows what to measure.
//!
//! The caller reads the server's CPU time and memory between our lines: after "ready", which ends
//! the warm-up, and after the result, before the connections are closed.

use std::io::{self, Write};

use anyhow::Result;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate(pub(crate) bool);

impl Gate {
    /// Blocks the only thread: nothing happens on the wire until the line arrives.
    pub(crate) fn ready(self) -> Result<()> {
        if self.0 {
            say(READY)?;
            wait()?;
        }
        Ok(())
    }

    /// Prints the result and holds what is open until a line, or the end, arrives.
    pub(crate) fn done(self, result: &str) -> Result<()> {
        say(result)?;
        if self.0 {
            wait()?;
        }
        Ok(())
    }
}

pub(crate) const READY: &str = "ready";

fn say(line: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", line.trim_end())?;
    out.flush()?;
    Ok(())
}

fn wait() -> Result<()> {
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}
