//! Times of connections that begin by the clock, on a server with much to do.

use anyhow::{Context, Result};

use super::figures::busy;
use super::{HANDSHAKE_WARMUP, Load, Sample, Subject, Work, walk};
use crate::compare::meter::Meter;
use crate::compare::pages;
use crate::compare::rows::figure;

/// Rate of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    per_second: u32,
    /// Percentage of its core that the first server used when it was saturated. Far below
    /// 100 the client was the slower one, and the rate says nothing.
    busy: f64,
}

impl Subject<'_> {
    /// Measures how many connections this server takes, always some at a time. Returns this
    /// percentage of it.
    pub(crate) async fn saturate(&mut self, percent: u32) -> Result<Rate> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let load = Load {
            hosts: FIRST,
            start: 0,
            ..self.load(walk(self.effort(SATURATING)), HANDSHAKE_WARMUP)
        };
        let mut client = self.client(&load, &server).await?;
        let meter = Meter::start(server.pid(), self.place.support)?;
        let outcome = client.go().await?;
        let used = meter.stop()?;
        client.finish().await?;
        self.server = Some(server);
        let rate = outcome.per_second * f64::from(percent) / 100.0;
        Ok(Rate {
            per_second: rate as u32,
            busy: busy(&used, &outcome),
        })
    }

    /// Measures times from when each connection was due. None may fail.
    pub(super) async fn loaded(&mut self, seconds: u32) -> Result<Sample> {
        let rate = self.rate.context("the first server told no rate")?;
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch(None).await?,
        };
        let work = Work::Loaded {
            rate: rate.per_second,
            seconds: u32::try_from(self.effort(u64::from(seconds)))?,
            first: FIRST,
        };
        let load = self.load(work, HANDSHAKE_WARMUP);
        pages::read(self.place, self.row, self.case, self.binary, &load)?;
        let mut client = self.client(&load, &server).await?;
        let meter = Meter::start(server.pid(), self.place.support)?;
        let outcome = client.go().await?;
        let used = meter.stop()?;
        client.finish().await?;
        self.server = Some(server);
        let lag = outcome.lag_us.as_ref().context("a schedule has a lag")?;
        let times = &outcome.operation_us;
        Ok(vec![
            (figure::P99, times.p99 as f64),
            (figure::P50, times.p50 as f64),
            (figure::P999, times.p999 as f64),
            (figure::LAG_P50, lag.p50 as f64),
            (figure::LAG_P99, lag.p99 as f64),
            (figure::DUE, f64::from(rate.per_second)),
            (figure::RATE, outcome.per_second),
            (figure::BUSY, busy(&used, &outcome)),
            (figure::CLIENT_BUSY, outcome.core_percent),
            (figure::SATURATED, rate.busy),
        ])
    }
}

/// Hosts that each server has in memory.
const FIRST: usize = 100;
/// Connections that tell what saturates a server.
const SATURATING: u64 = 10_000;
