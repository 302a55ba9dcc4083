//! Start-up of a server.

use anyhow::Result;

use super::{Sample, Subject, mib, millis};
use crate::compare::rows::figure;
use sekisho_bench::accounting::CpuTime;

impl Subject<'_> {
    pub(super) async fn start_up(&mut self) -> Result<Sample> {
        let server = self.launch(None).await?;
        let used = server.cpu()?.since(&CpuTime::default());
        let memory = server.memory()?;
        Ok(vec![
            (figure::START, millis(server.start_up)),
            // Unlike the elapsed time, CPU time is the same on a busy machine.
            (figure::START_CPU, millis(used)),
            (figure::RSS, mib(memory.rss)),
            (figure::PSS, mib(memory.pss)),
            (figure::VIRTUAL, mib(server.address_space()?)),
        ])
    }
}
