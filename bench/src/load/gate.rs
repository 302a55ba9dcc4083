//! Gate: the protocol with the parent process, which measures the server.
//!
//! The parent reads the server's CPU time and memory between two lines of this
//! process. The line "ready" ends the warm-up. The line with the result comes
//! before the connections are closed.

use std::io::{self, Write};

use anyhow::Result;

#[derive(Clone, Copy, Debug)]
pub struct Gate(pub bool);

impl Gate {
    /// Prints "ready" and waits for a line. Blocking the only thread keeps the
    /// wire silent meanwhile.
    pub fn ready(self) -> Result<()> {
        if self.0 {
            say(READY)?;
            wait()?;
        }
        Ok(())
    }

    /// Prints the result and keeps the connections open until a line or EOF
    /// arrives.
    pub fn done(self, result: &str) -> Result<()> {
        say(result)?;
        if self.0 {
            wait()?;
        }
        Ok(())
    }
}

pub const READY: &str = "ready";

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
