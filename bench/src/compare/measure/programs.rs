//! CPU time of CGI programs at half of the rate that saturates, and the kernel's part of it.

use anyhow::{Result, ensure};

use super::{Load, Sample, Subject, Work};
use crate::compare::kernel::{CoreTime, Profile};
use crate::compare::rows::figure;
use crate::compare::server::Server;
use sekisho_bench::accounting::cpu_with_ended;
use sekisho_bench::load::Outcome;

impl Subject<'_> {
    /// Measures where CPU time goes. The server is kept for the next sample.
    pub(super) async fn programs(&mut self, count: u64, seconds: u64) -> Result<Sample> {
        let server = match self.server.take() {
            Some(server) => server,
            None => self.launch_filled().await?,
        };
        let most = self.ask_programs(self.effort(count), None, &server).await?;
        let rate = (most.outcome.per_second / 2.0) as u32;
        ensure!(
            rate > 0,
            "the server answers less than 2 requests per second"
        );
        let count = u64::from(rate) * self.effort(seconds);
        let spent = self.ask_programs(count, Some(rate), &server).await?;
        self.server = Some(server);
        let mut figures = vec![(figure::KERNEL_TIME, spent.kernel)];
        match spent.profile {
            Ok(profile) => figures.extend(profile),
            // The cells stay empty.
            Err(error) => {
                let why = format!("# page tables are not counted: {error:#}");
                self.commands.push(why);
            }
        }
        figures.extend([
            (figure::BUSY, spent.busy),
            (figure::CORE, spent.core),
            (figure::RATE, spent.outcome.per_second),
            (figure::CLIENT_BUSY, most.outcome.core_percent),
            (figure::MOST_RATE, most.outcome.per_second),
            (figure::MOST_BUSY, most.busy),
            (figure::P50, spent.outcome.operation_us.p50 as f64),
            (figure::P99, spent.outcome.operation_us.p99 as f64),
        ]);
        Ok(figures)
    }

    /// Asks for programs, always some at a time or at a rate.
    async fn ask_programs(
        &mut self,
        count: u64,
        rate: Option<u32>,
        server: &Server,
    ) -> Result<Spent> {
        let load = Load {
            hosts: FIRST,
            start: 0,
            ..self.load(Work::Programs { count, rate }, WARMUP)
        };
        let core = self.place.options.server_core;
        let file = self.place.log(&self.name, "perf");
        let mut client = self.client(&load, server).await?;
        // The load that saturates is soon over, and its profile is not shown.
        let profile = rate.map(|rate| Profile::start(core, count / u64::from(rate), &file));
        let before = (CoreTime::read(core)?, cpu_with_ended(server.pid())?);
        let outcome = client.go().await?;
        let [kernel, all] = CoreTime::read(core)?.percentages(before.0);
        let used = cpu_with_ended(server.pid())?.saturating_sub(before.1);
        client.finish().await?;
        Ok(Spent {
            kernel,
            core: all,
            busy: 100.0 * used.as_secs_f64() / outcome.seconds.max(1e-9),
            profile: match profile {
                Some(Ok(profile)) => profile.figures().await,
                Some(Err(error)) => Err(error),
                None => Ok(Vec::new()),
            },
            outcome,
        })
    }
}

/// CPU time of a load, in percent.
struct Spent {
    outcome: Outcome,
    /// Kernel's part of the CPU time of the server's core.
    kernel: f64,
    /// Part of the time in which the core worked.
    core: f64,
    /// Part that the server and its programs used.
    busy: f64,
    profile: Result<Sample>,
}

/// Hosts that programs are asked of: each has a ticket after the warm-up.
const FIRST: usize = 100;
/// Requests before the measured ones: Apache starts its children meanwhile.
const WARMUP: u64 = 100;
