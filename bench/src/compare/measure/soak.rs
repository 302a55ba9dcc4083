//! Memory after many handshakes, most of which load another host.

use anyhow::Result;

use super::figures::operation_figures;
use super::{Sample, Subject, figure, walk};
use crate::compare::meter::Meter;

impl Subject<'_> {
    pub(super) async fn soak(&mut self, handshakes: u64) -> Result<Sample> {
        let server = self.launch(None).await?;
        let load = self.load(walk(handshakes), 0);
        let mut client = self.client(&load, &server).await?;
        let meter = Meter::start(server.pid(), self.place.support)?;
        let outcome = client.go().await?;
        let used = meter.stop()?;
        client.finish().await?;
        let mut sample = operation_figures(&outcome, &used, server.memory()?);
        // Memory is the main figure of this row.
        sample.sort_by_key(|(name, _)| *name != figure::RSS);
        Ok(sample)
    }
}
