//! Measures samples of a case.

mod beside;
mod figures;
mod first_byte;
mod herd;
mod hits;
mod loaded;
mod month;
pub(crate) mod namespace;
mod operations;
mod programs;
mod propagation;
mod reload;
mod servers;
mod siege;
mod soak;
mod start_up;
mod stuck;
mod waiting;
mod wrk;

use std::time::Duration;

use anyhow::{Context, Error, Result};
use tokio::time::sleep;

use self::figures::{growth, mib, millis};
use self::loaded::Rate;
pub(crate) use self::month::{FAILED, Series};
use super::client::{Client, Load, Work};
use super::limit;
use super::options::Binary;
use super::rows::{Asked, Case, Content, Measure, Row, Setup, figure};
use super::server::{Launch, Server};
use super::setup::{self, Place};
use crate::fixtures::HOST_PATTERN;
use sekisho_bench::accounting::Memory;

/// Figures by name, the most important first.
pub(crate) type Sample = Vec<(&'static str, f64)>;

/// Case of a row, with its running server.
pub(crate) struct Subject<'a> {
    place: Place<'a>,
    row: &'a Row,
    pub(crate) case: &'a Case,
    /// Binary of sekisho, if the case runs sekisho.
    pub(crate) binary: Binary,
    /// Name of the case's files: row and number.
    name: String,
    server: Option<Server>,
    /// Command of the server that was started last.
    launched: Option<Launch>,
    /// Number of hosts requested so far. Each walk continues there: no host
    /// repeats before all had a turn.
    walked: usize,
    /// Rate of this round, if connections begin by the clock.
    pub(crate) rate: Option<Rate>,
    /// Commands of the last sample.
    pub(crate) commands: Vec<String>,
    /// Readings of the last sample over time.
    pub(crate) series: Series,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        place: Place<'a>,
        row: &'a Row,
        case: &'a Case,
        binary: Binary,
        name: String,
    ) -> Self {
        Self {
            place,
            row,
            case,
            binary,
            name,
            server: None,
            launched: None,
            walked: 0,
            rate: None,
            commands: Vec::new(),
            series: Series::default(),
        }
    }

    pub(crate) async fn sample(&mut self) -> Result<Sample> {
        self.commands.clear();
        match self.row.measure {
            Measure::Handshakes { count, .. } if self.case.setup.is_client() => {
                self.redis_client(self.effort(count)).await
            }
            Measure::Handshakes { count, resumed } => {
                let count = self.effort(count);
                let work = Work::Handshakes { count, resumed };
                self.operations(work, HANDSHAKE_WARMUP).await
            }
            Measure::Requests { connections, each } => {
                let each = self.effort(each);
                let work = Work::Requests { connections, each };
                self.operations(work, 2 * connections as u64).await
            }
            Measure::AnyHost { connections, each } => {
                let each = self.effort(each);
                let work = Work::AnyHost { connections, each };
                self.operations(work, 2 * connections as u64).await
            }
            Measure::Streams { streams, count } => {
                let count = self.effort(count);
                let work = Work::Streams { streams, count };
                self.operations(work, 10 * streams as u64).await
            }
            Measure::Downloads { count } => {
                let count = self.effort(count);
                self.operations(Work::Downloads { count }, 1).await
            }
            Measure::Echoes { connections, each } => {
                let each = self.effort(each);
                let work = Work::Echoes { connections, each };
                self.operations(work, 2 * connections as u64).await
            }
            Measure::FirstByte { count } => self.first_byte(self.effort(count)).await,
            Measure::IdleMemory { connections, http2 } => {
                self.idle_memory(connections, http2).await
            }
            Measure::HostMemory { from, to } => self.host_memory(from, to).await,
            Measure::WaitingMemory { connections } => self.waiting_memory(connections).await,
            Measure::WorkerMemory { workers } => self.worker_memory(workers).await,
            Measure::StartUp => self.start_up().await,
            Measure::Soak { handshakes } => self.soak(handshakes).await,
            Measure::Loaded { seconds, .. } => self.loaded(seconds).await,
            Measure::Stuck { seconds, rate } => self.stuck(seconds, rate).await,
            Measure::HookStuck { seconds, rate } => self.hook_stuck(seconds, rate).await,
            Measure::Herd { connections } => self.herd(connections).await,
            Measure::Propagation { changes } => self.propagation(changes).await,
            Measure::Month { times } => self.month(times).await,
            Measure::Hits => self.hits().await,
            Measure::Reload => self.reload().await,
            Measure::FirstPage => self.first_page().await,
            Measure::Siege { clients, each } => self.siege(clients, each).await,
            Measure::Wrk {
                connections,
                seconds,
            } => self.wrk(connections, seconds).await,
            Measure::Programs { count, seconds } => self.programs(count, seconds).await,
            Measure::Servers { servers, count } => self.servers(servers, count).await,
        }
    }

    /// Returns how the server ended if that was for lack of memory under its limit, which is a
    /// result as well.
    pub(crate) fn ending(&self, error: &Error) -> Option<String> {
        limit::ending(error, self.launched.as_ref()?)
    }

    async fn idle_memory(&mut self, connections: usize, http2: bool) -> Result<Sample> {
        let server = self.launch(None).await?;
        let few = self.load(walk(500), 0);
        self.run(&few, &server).await?;
        if http2 {
            let (streams, count) = (1, 500);
            let few = self.load(Work::Streams { streams, count }, 0);
            self.run(&few, &server).await?;
        }
        let before = server.memory()?;
        let load = self.load(Work::Idle { connections, http2 }, 0);
        let mut client = self.client(&load, &server).await?;
        sleep(IDLE).await;
        let after = server.memory()?;
        client.go().await?;
        client.finish().await?;
        Ok(growth(before, after, connections))
    }

    /// Measures memory per host. nginx loads its hosts at the start, hence it
    /// is started twice; sekisho fills its cache.
    async fn host_memory(&mut self, from: usize, to: usize) -> Result<Sample> {
        let preloads = matches!(self.case.setup, Setup::Nginx { .. });
        let mut server = self.launch(preloads.then_some(from)).await?;
        // Buffers and allocator arenas reach their size before the first
        // reading.
        let first = Load {
            hosts: from,
            start: 0,
            ..self.load(walk(2_000), 0)
        };
        self.run(&first, &server).await?;
        let before = server.memory()?;
        if preloads {
            drop(server);
            server = self.launch(Some(to)).await?;
            self.run(&first, &server).await?;
        } else {
            let fill = Load {
                hosts: to,
                start: 0,
                ..self.load(walk(to as u64), 0)
            };
            self.run(&fill, &server).await?;
        }
        Ok(growth(before, server.memory()?, to - from))
    }

    /// Starts a server, and fills its Redis cache with all hosts if it has one; if it runs
    /// programs, its memory cache.
    async fn launch_filled(&mut self) -> Result<Server> {
        let server = self.launch(None).await?;
        if self.case.setup.has_redis_cache() {
            let hosts = self.row.hosts.count(self.place.options.is_short());
            for _ in 0..FILLS {
                let fill = Load {
                    hosts,
                    start: 0,
                    ..self.load(walk(hosts as u64), 0)
                };
                self.run(&fill, &server).await?;
            }
        }
        if self.case.setup.is_sekisho() && matches!(self.case.content, Content::Programs(_)) {
            self.fill_memory(&server).await?;
        }
        Ok(server)
    }

    /// Runs all of the load at once, without readings in between.
    async fn run(&mut self, load: &Load, server: &Server) -> Result<()> {
        let mut client = self.client(load, server).await?;
        client.go().await?;
        client.finish().await
    }

    async fn client(&mut self, load: &Load, server: &Server) -> Result<Client> {
        let core = self.place.options.client_core;
        let arguments = load.arguments(server.address);
        let client = self.start_client(&arguments, load.operations(), core).await;
        client.with_context(|| {
            let log = self.place.log(&self.name, "server");
            format!("the server wrote {}", log.display())
        })
    }

    async fn start_client(
        &mut self,
        arguments: &[String],
        operations: u64,
        core: usize,
    ) -> Result<Client> {
        let quoted = arguments
            .iter()
            .map(|argument| match argument.contains(' ') {
                true => format!("'{argument}'"),
                false => argument.clone(),
            });
        let shown = quoted.collect::<Vec<_>>().join(" ");
        self.commands
            .push(format!("taskset -c {core} sekisho-bench {shown}"));
        let log = self.place.log(&self.name, "client");
        let bound = CLIENT_BOUND + OPERATION_BOUND * u32::try_from(operations)?;
        Client::start(arguments, core, &log, bound).await
    }

    fn load(&mut self, work: Work, warmup: u64) -> Load {
        let hosts = match self.case.asked {
            Asked::Hundred => 100,
            Asked::All | Asked::Zipf(_) => {
                let short = self.place.options.is_short();
                self.row.hosts_of(self.case.content, short)
            }
        };
        let load = Load {
            version: self.row.version,
            group: self.case.group,
            pattern: HOST_PATTERN.to_owned(),
            hosts,
            start: self.walked % hosts,
            warmup,
            field: self.row.field(),
            page: self.row.page(),
            work,
        };
        self.walked += (warmup + load.operations()) as usize;
        load
    }

    async fn launch(&mut self, preload: Option<usize>) -> Result<Server> {
        let launch = self.prepare(&self.name, preload, self.row.workers)?;
        self.start(&launch).await
    }

    /// Starts a server whose files have this name.
    async fn launch_as(
        &mut self,
        name: &str,
        preload: Option<usize>,
        workers: usize,
    ) -> Result<Server> {
        let launch = self.prepare(name, preload, workers)?;
        self.start(&launch).await
    }

    fn prepare(&self, name: &str, preload: Option<usize>, workers: usize) -> Result<Launch> {
        let (place, row, case) = (self.place, self.row, self.case);
        setup::launch(place, row, case, self.binary, name, preload, workers)
    }

    async fn start(&mut self, launch: &Launch) -> Result<Server> {
        self.commands.push(launch.command());
        self.launched = Some(launch.clone());
        Server::start(launch).await
    }

    fn effort(&self, count: u64) -> u64 {
        if self.place.options.is_short() {
            count.div_ceil(QUICK_PART)
        } else {
            count
        }
    }
}

fn walk(count: u64) -> Work {
    Work::Handshakes {
        count,
        resumed: false,
    }
}

const HANDSHAKE_WARMUP: u64 = 500;
/// Part of the work that a quick run does.
const QUICK_PART: u64 = 5;
/// Walks that fill the Redis cache. A busy server leaves hosts out; the second
/// walk adds them.
const FILLS: usize = 2;
/// Servers release buffers of idle connections after some seconds, and their
/// allocators release pages after one.
const IDLE: Duration = Duration::from_secs(5);
const CLIENT_BOUND: Duration = Duration::from_secs(60);
/// nginx takes 4.4 ms for a signature with RSA 4096.
const OPERATION_BOUND: Duration = Duration::from_millis(20);
