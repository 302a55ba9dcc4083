//! Finds hosts whose client CA verifies nobody.

use std::io::Write;

use anyhow::Result;
use sekisho_certs::{ClientCa, HostRecord};

use crate::cli::output::Output;

/// Hosts that a server can't serve because of their client CA.
#[derive(Default)]
pub(super) struct Unusable {
    count: usize,
    /// The first hosts.
    lines: Vec<String>,
}

impl Unusable {
    pub(super) fn note(&mut self, record: &HostRecord) {
        let Some(ca) = &record.tls.client_ca else {
            return;
        };
        // Other programs may write a store, without the checks of `host set`.
        if let Err(why) = ClientCa::check(ca.pem().as_bytes()) {
            self.count += 1;
            if self.lines.len() < MAX_NAMED {
                self.lines.push(format!("{}: {why}", record.pattern));
            }
        }
    }

    /// Warns of the hosts, if there are any.
    pub(super) fn write(&self, output: &mut Output) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        writeln!(
            output,
            "{} hosts have a client CA that can't be used; change it with `sekisho host set`:",
            self.count
        )?;
        for line in &self.lines {
            writeln!(output, "  {line}")?;
        }
        let more = self.count - self.lines.len();
        if more > 0 {
            writeln!(output, "  and {more} more")?;
        }
        Ok(())
    }
}

/// Hosts that are named: enough to see what they have in common.
const MAX_NAMED: usize = 20;
