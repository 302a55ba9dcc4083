//! Memory of handshakes that wait, and of workers.

use anyhow::Result;
use tokio::time::sleep;

use super::{IDLE, Sample, Subject, Work, growth, walk};
use crate::compare::client::Load;
use crate::compare::server::PAGE;
use crate::fixtures::HOST_PATTERN;
use sekisho_bench::accounting::Memory;

impl Subject<'_> {
    /// Measures the growth by handshakes that wait: in the script where the case has one,
    /// else for the second half of the ClientHello. The first hosts never wait.
    pub(super) async fn waiting_memory(&mut self, connections: usize) -> Result<Sample> {
        let server = self.launch(None).await?;
        let few = self.load(walk(500), 0);
        self.run(&few, &server).await?;
        sleep(IDLE).await;
        let before = server.memory()?;
        let hellos = Load {
            version: self.row.version,
            group: self.case.group,
            pattern: HOST_PATTERN.to_owned(),
            hosts: self.row.hosts.count(self.place.options.is_short()),
            start: NEVER_WAIT,
            warmup: 0,
            field: None,
            page: PAGE,
            work: Work::Hellos {
                connections,
                whole: self.case.hook.is_some(),
            },
        };
        let mut client = self.client(&hellos, &server).await?;
        sleep(IDLE).await;
        let after = server.memory()?;
        // Handshakes that ended meanwhile would make the figure too small.
        client.go().await?;
        client.finish().await?;
        Ok(growth(before, after, connections))
    }

    /// Measures what each worker but the first adds to a server that has served.
    pub(super) async fn worker_memory(&mut self, workers: usize) -> Result<Sample> {
        let one = self.served(1).await?;
        let all = self.served(workers).await?;
        Ok(growth(one, all, workers - 1))
    }

    /// Returns the memory of a server after handshakes on all of its workers.
    async fn served(&mut self, workers: usize) -> Result<Memory> {
        let name = self.name.clone();
        let server = self.launch_as(&name, None, workers).await?;
        // Connections are spread by their ports: each worker has hundreds.
        let load = self.load(walk(500 * workers as u64), 0);
        self.run(&load, &server).await?;
        sleep(IDLE).await;
        server.memory()
    }
}

/// Hosts for which scripts do not wait.
const NEVER_WAIT: usize = 100;
