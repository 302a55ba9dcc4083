//! Work of a server per operation, and the rate.

use anyhow::{Context, Result, anyhow, ensure};

use super::beside::Beside;
use super::figures::operation_figures;
use super::{Sample, Subject};
use crate::compare::client::{Load, Work};
use crate::compare::meter::Meter;
use crate::compare::pages;
use crate::compare::rows::{Content, figure};
use crate::compare::server::PAGE;

impl Subject<'_> {
    /// Measures CPU time per operation. The server is kept for the next sample.
    pub(super) async fn operations(&mut self, work: Work, warmup: u64) -> Result<Sample> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch_filled().await?,
        };
        let load = self.load(work, warmup);
        pages::read(self.place, self.row, self.case, self.binary, &load)?;
        let mut client = self.client(&load, &server).await?;
        let beside = Beside::read(self.place, self.case.setup, &server).await?;
        let meter = Meter::start(server.pid(), self.place.support)?;
        let outcome = client.go().await?;
        let used = meter.stop()?;
        // A server that serves some connections to their end first leaves others nothing to count.
        ensure!(
            2 * outcome.operations >= load.operations(),
            "only {} of {} operations came after the warm-up of all connections",
            outcome.operations,
            load.operations()
        );
        let beside = beside
            .figures(self.place, self.case.setup, &server, &outcome)
            .await?;
        client.finish().await?;
        self.check_others(&load).await?;
        let answer = self.answer_bytes(&load).await?;
        let memory = server.memory()?;
        self.server = Some(server);
        let mut figures = operation_figures(&outcome, &used, memory);
        figures.splice(1..1, beside);
        figures.extend(answer);
        Ok(figures)
    }

    /// Asks for the page of further hosts, with their certificates verified: a server that
    /// gives one certificate to all hosts has less to do.
    async fn check_others(&self, load: &Load) -> Result<()> {
        let launched = self.launched.as_ref().context("a server runs")?;
        let probe = launched.probe()?;
        let mut buffer = Vec::new();
        // Hosts that run programs may use certificates in turn, which are those of the first ones.
        let own = self.row.hosts.count(self.place.options.is_short());
        for number in [load.hosts / 2, load.hosts - 1] {
            let number = number % own;
            let host = load.pattern.replace("{n}", &number.to_string());
            let visit = probe.visit(&host, Some(PAGE), &mut buffer).await;
            visit.map_err(|failure| anyhow!("{host} is not served: {}", failure.kind()))?;
        }
        Ok(())
    }
    /// Measures a text as clients get it: a server that compresses less has less to do.
    async fn answer_bytes(&self, load: &Load) -> Result<Option<(&'static str, f64)>> {
        let (Content::Texts(_), Some(field)) = (self.case.content, load.field) else {
            return Ok(None);
        };
        let launched = self.launched.as_ref().context("a server runs")?;
        let client = launched.client()?.with_field(field);
        let host = load.pattern.replace("{n}", "0");
        let mut buffer = Vec::new();
        let visit = client.visit(&host, Some(load.page), &mut buffer);
        let visit = visit
            .await
            .map_err(|failure| anyhow!("{}", failure.kind()))?;
        Ok(Some((figure::ANSWER, visit.length as f64)))
    }
}
