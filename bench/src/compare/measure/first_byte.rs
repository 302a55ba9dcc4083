//! Time to the first byte of a CGI program's answer.

use anyhow::{Context, Result};

use super::{Sample, Subject};
use crate::compare::client::{Load, Work};
use crate::compare::creation::Trace;
use crate::compare::rows::figure;
use crate::compare::server::Server;

impl Subject<'_> {
    /// Measures times to the first byte. The time of the programs themselves does not count
    /// as the server's.
    pub(super) async fn first_byte(&mut self, count: u64) -> Result<Sample> {
        let work = Work::FirstByte { count };
        let mut sample = self.operations(work, WARMUP).await?;
        // The time is the main figure of this row.
        sample.sort_by_key(|(name, _)| *name != figure::P50);
        let server = self.server.take().context("a server runs")?;
        match self.creation(&server).await {
            Ok(times) => sample.extend(times),
            // The cells stay empty.
            Err(error) => {
                let why = format!("# the creation of processes is not timed: {error:#}");
                self.commands.push(why);
            }
        }
        self.server = Some(server);
        Ok(sample)
    }

    /// Measures the creation of processes, apart from the times of answers.
    async fn creation(&mut self, server: &Server) -> Result<Sample> {
        let file = self.place.log(&self.name, "calls");
        let load = self.load(Work::FirstByte { count: TRACED }, 0);
        let mut client = self.client(&load, server).await?;
        let trace = Trace::start(self.place.options.server_core, &file).await?;
        client.go().await?;
        client.finish().await?;
        trace.figures().await
    }

    /// Fills the memory cache: asks for a file of each host once, which runs no program.
    pub(super) async fn fill_memory(&mut self, server: &Server) -> Result<()> {
        let hosts = self.load(Work::FirstByte { count: 0 }, 0).hosts;
        let fill = Work::AnyHost {
            connections: FILLING,
            each: hosts.div_ceil(FILLING) as u64,
        };
        let fill = Load {
            start: 0,
            ..self.load(fill, 0)
        };
        self.run(&fill, server).await
    }
}

const WARMUP: u64 = 20;
/// Requests while calls are traced.
const TRACED: u64 = 50;
/// Connections that fill the cache.
const FILLING: usize = 100;
