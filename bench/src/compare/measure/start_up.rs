//! Start-up of a server, and the size of its configuration.

use std::fs;
use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::sleep;

use super::{Sample, Subject, mib, millis};
use crate::compare::rows::figure;
use sekisho_bench::accounting::{CpuTime, tree};

impl Subject<'_> {
    pub(super) async fn start_up(&mut self) -> Result<Sample> {
        let launch = self.prepare(&self.name, None, self.row.workers)?;
        let configuration = fs::read_to_string(launch.configuration()?)?;
        let server = self.start(&launch).await?;
        let used = server.cpu()?.since(&CpuTime::default());
        if self.row.workers > 1 {
            settled(server.pid()).await?;
        }
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

/// Waits until a server has as many processes as a moment before: its first worker may serve
/// before the last one is forked.
async fn settled(root: u32) -> Result<()> {
    let mut before = 0;
    for _ in 0..MOMENTS {
        let processes = tree(root)?.len();
        if processes == before {
            return Ok(());
        }
        before = processes;
        sleep(MOMENT).await;
    }
    bail!("it still starts processes after {MOMENTS} s");
}

/// Longer than the fork of a process with 4 GiB takes.
const MOMENT: Duration = Duration::from_secs(1);
const MOMENTS: usize = 60;
