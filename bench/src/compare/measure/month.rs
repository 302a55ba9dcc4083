//! Accelerated month: visitors come and certificates are written all the while.

mod plan;
mod series;
mod way;
mod writer;

use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::time::sleep;

use self::plan::{Plan, Step};
use self::series::{Cpu, Point, Sums};
pub(crate) use self::series::{FAILED, Series};
use self::way::{Import, Reload, Way};
use self::writer::Writer;
use super::{Sample, Subject, mib};
use crate::compare::limit;
use crate::compare::rows::Setup;
use crate::compare::server::{Launch, PAGE, Server};
use crate::compare::setup;
use crate::fixtures::{Folder, HOST_PATTERN, host_name};
use sekisho_bench::accounting::{cpu_with_ended, own_cpu, peak_address_space};
use sekisho_bench::load::Outcome;

impl Subject<'_> {
    /// Measures a month. A server that finds no memory under its limit ends the month early,
    /// which is a result as well.
    pub(super) async fn month(&mut self, times: usize) -> Result<Sample> {
        let short = self.place.options.is_short();
        let plan = Plan::new(self.row.hosts.count(short), times, short);
        let (place, row, case) = (self.place, self.row, self.case);
        let launch = setup::launch(place, row, case, self.binary, &self.name, None, 1)?;
        let ground = self.lay_out(&launch, plan.from)?;
        self.commands.push(launch.command());
        self.series = Series::default();
        let mut sums = Sums::new()?;
        let mut cpu = Cpu::default();
        let run = self.pass(plan, &launch, &ground, &mut sums, &mut cpu);
        if let Err(error) = run.await {
            let point = self.series.points.last();
            let (day, hosts) = point.map_or((0.0, plan.from), |point| (point.day, point.due));
            let ended = limit::ending(&error, &launch).ok_or(error)?;
            self.series.ended = Some(format!("on day {day:.1}, of {hosts} hosts: {ended}"));
        }
        fs::remove_dir_all(&ground.folder)?;
        self.commands.extend(sums.failures());
        Ok(sums.figures(&self.series, cpu))
    }

    /// Copies what the server reads and the month changes into the folder of its configuration.
    fn lay_out(&self, launch: &Launch, hosts: usize) -> Result<Ground> {
        let config = launch.arguments.last().context("a server has a file")?;
        let config = PathBuf::from(config);
        let folder = config.parent().context("a file lies in a folder")?;
        let workspace = self.place.workspace;
        let fixture = workspace.fixture(self.row.key, hosts);
        fs::create_dir_all(Folder(folder).hosts())?;
        match self.case.setup {
            Setup::Nginx { .. } => link(Folder(&fixture), Folder(folder), hosts)?,
            _ => {
                let catalog = workspace.catalog(self.binary, self.row.key, hosts);
                for name in ["hosts.db", "master.key"] {
                    let file = catalog.join(name);
                    let copied = fs::copy(&file, folder.join(name));
                    copied.with_context(|| format!("cannot copy {}", file.display()))?;
                }
            }
        }
        Ok(Ground {
            folder: folder.to_owned(),
            fixture,
            hosts,
        })
    }

    /// Passes the month, step by step.
    async fn pass(
        &mut self,
        plan: Plan,
        launch: &Launch,
        ground: &Ground,
        sums: &mut Sums,
        cpu: &mut Cpu,
    ) -> Result<()> {
        let server = Server::start(launch).await?;
        let before = self.cpu(&server)?;
        let way = self.way(&server, launch, ground);
        let begun = Instant::now();
        let writer = Writer::start(plan, begun, ground.fixture.clone(), way)?;
        let mut read = Duration::ZERO;
        while let Some(step) = plan.step(begun.elapsed())
            && !writer.has_ended()
        {
            let (outcome, peak) = self.visit(&server, launch, step, writer.served()).await?;
            let memory = server.memory()?.pss;
            let used = self.cpu(&server)?.since(before);
            let reloads;
            (reloads, sums.ended_reloads) = writer.reloads();
            let at = begun.elapsed();
            let percent = |used: Duration| 100.0 * used.as_secs_f64() / (at - read).as_secs_f64();
            self.series.points.push(Point {
                day: plan.days(at),
                certificates: writer.served(),
                due: plan.due(at).hosts,
                per_second: outcome.per_second,
                failed: outcome.failed,
                slow: sums.add(&outcome),
                p99_us: outcome.operation_us.p99,
                cpu: percent(used.since(*cpu).all),
                reload_cpu: percent(used.since(*cpu).reloads),
                pss_mib: mib(memory),
                peak_pss_mib: mib(peak.max(memory)),
                reloads,
            });
            (*cpu, read) = (used, at);
        }
        // nginx refuses a reload for which it finds no memory, and often names another reason.
        let peak = peak_address_space(server.pid())?;
        let ended = writer.end();
        ended.map_err(|error| limit::explain(error, launch.limit, peak))
    }

    fn cpu(&self, server: &Server) -> Result<Cpu> {
        let pid = server.pid();
        Ok(Cpu {
            all: cpu_with_ended(pid)?,
            reloads: match self.case.setup {
                Setup::Nginx { .. } => own_cpu(pid)?,
                _ => Duration::ZERO,
            },
        })
    }

    fn way(&self, server: &Server, launch: &Launch, ground: &Ground) -> Way {
        let config = ground.folder.join("server.conf");
        match self.case.setup {
            Setup::Nginx { .. } => Way::Reload(Reload {
                master: server.pid(),
                config,
                scratch: ground.folder.clone(),
                log: launch.log.clone(),
                hosts: ground.hosts,
                done: 0,
                cpu: Duration::ZERO,
            }),
            _ => Way::Import(Import {
                program: self.place.options.program(self.binary).to_owned(),
                config,
                batch: ground.folder.clone(),
                log: self.place.log(&self.name, "import"),
            }),
        }
    }

    /// Lets visitors come for a step. Returns the largest PSS meanwhile.
    async fn visit(
        &mut self,
        server: &Server,
        launch: &Launch,
        step: Step,
        hosts: usize,
    ) -> Result<(Outcome, u64)> {
        let mut arguments = visitors(step, hosts, self.series.points.len());
        arguments.push(format!("--target={}", server.address));
        arguments.push(format!("--ca={}", launch.authority.display()));
        let operations = (f64::from(step.rate) * step.length.as_secs_f64()) as u64;
        let core = self.place.options.client_core;
        let mut client = self.start_client(&arguments, operations, core).await?;
        // Of hundreds of clients the first one stands for all.
        self.commands.truncate(2);
        let watched = beside(client.attempt(), server).await?;
        client.finish().await?;
        Ok(watched)
    }
}

/// Reads a server's PSS until the client is done. Returns the largest reading.
async fn beside(
    attempt: impl Future<Output = Result<Outcome>>,
    server: &Server,
) -> Result<(Outcome, u64)> {
    let mut attempt = pin!(attempt);
    let (mut peak, mut rest) = (0, GLANCE);
    loop {
        tokio::select! {
            outcome = &mut attempt => return Ok((outcome?, peak)),
            () = sleep(rest) => {}
        }
        let begun = Instant::now();
        peak = peak.max(server.memory()?.pss);
        // Each reading walks all pages of the server, on the client's core.
        rest = GLANCE.max(begun.elapsed() * 10);
    }
}

/// Files of a server in a month.
struct Ground {
    /// Folder of the configuration and of all that changes.
    folder: PathBuf,
    /// Folder of the first certificates and of their authority.
    fixture: PathBuf,
    /// Hosts at the beginning.
    hosts: usize,
}

/// Links the certificates of the first hosts into another folder.
fn link(from: Folder<'_>, to: Folder<'_>, hosts: usize) -> Result<()> {
    for number in 0..hosts {
        let name = host_name(number);
        fs::hard_link(from.chain(&name), to.chain(&name))?;
        fs::hard_link(from.key(&name), to.key(&name))?;
    }
    Ok(())
}

/// Returns the arguments of visitors that verify chain and name. They come by the clock, to
/// hosts by their popularity.
fn visitors(step: Step, hosts: usize, seed: usize) -> Vec<String> {
    vec![
        "load".to_owned(),
        format!("--name-pattern={HOST_PATTERN}"),
        format!("--count={hosts}"),
        "--order=zipf:1".to_owned(),
        format!("--seed={seed}"),
        format!("--rate={}", step.rate),
        format!("--seconds={:.3}", step.length.as_secs_f64()),
        format!("--concurrency={MOST_OPEN}"),
        format!("--deadline={DEADLINE}"),
        format!("--request={PAGE}"),
        "--counts".to_owned(),
    ]
}

/// Time between two readings of memory.
const GLANCE: Duration = Duration::from_secs(1);
const MOST_OPEN: usize = 1_000;
/// Seconds after which a visitor leaves.
const DEADLINE: u32 = 5;
