//! Start-up of a server, and the size of its configuration.

use std::fs;

use anyhow::Result;

use super::{Sample, Subject, mib, millis};
use crate::compare::rows::figure;
use sekisho_bench::accounting::CpuTime;

impl Subject<'_> {
    pub(super) async fn start_up(&mut self) -> Result<Sample> {
        let launch = self.prepare(&self.name, None, self.row.workers)?;
        let configuration = fs::read_to_string(launch.configuration()?)?;
        let server = self.start(&launch).await?;
        let used = server.cpu()?.since(&CpuTime::default());
        let memory = server.memory()?;
        Ok(vec![
            (figure::START, millis(server.start_up)),
            // Unlike the elapsed time, CPU time is the same on a busy machine.
            (figure::START_CPU, millis(used)),
            (figure::RSS, mib(memory.rss)),
            (figure::PSS, mib(memory.pss)),
            (figure::VIRTUAL, mib(server.address_space()?)),
            (figure::LINES, configuration.lines().count() as f64),
            (figure::BYTES, configuration.len() as f64),
        ])
    }
}
