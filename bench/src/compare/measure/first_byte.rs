//! Time to the first byte of a CGI program's answer.

use anyhow::Result;

use super::{Sample, Subject};
use crate::compare::client::{Load, Work};
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
        Ok(sample)
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
/// Connections that fill the cache.
const FILLING: usize = 100;
