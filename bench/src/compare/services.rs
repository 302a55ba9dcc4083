//! Redis and PostgreSQL of the comparison, on the client's core.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use sekisho_testkit::RedisServer;
use sekisho_testkit::services::{Postgres, Signal};
use tokio::process::Child;

use super::hanging::Hung;
use super::options::{Binary, Options};
use super::relay::Relay;
use super::rows::figure;
use super::tied::Tie;
use super::upstreams;
use super::workspace::Workspace;
use crate::fixtures::{Folder, KeyKind, host_name};
use crate::upstream;
use sekisho_bench::accounting::CpuTime;

/// Service behind the servers.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Service {
    Redis,
    Postgres,
    /// Endpoint that gives out certificates over HTTP.
    Endpoint,
}

impl Service {
    /// Returns the name of the figure with its CPU time.
    pub(crate) fn cpu_figure(self) -> &'static str {
        match self {
            Self::Redis => figure::REDIS_CPU,
            Self::Postgres => figure::POSTGRES_CPU,
            Self::Endpoint => figure::ENDPOINT_CPU,
        }
    }
}

/// Address of a store, and its master key.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) url: String,
    pub(crate) master_key: Option<PathBuf>,
}

/// Filled services of a run. Dropping them ends the services.
#[derive(Default)]
pub(crate) struct Services {
    /// Dropped before Redis: no other process gets its id meanwhile.
    redis_tie: Option<Tie>,
    redis: Option<RedisServer>,
    postgres: Option<Database>,
    /// Process and port.
    endpoint: Option<(Child, u16)>,
    /// Relays before the services, if they are to be far away.
    relays: BTreeMap<Service, Relay>,
}

struct Database {
    server: Arc<Postgres>,
    /// Databases by the binary that created each: binaries may differ in their
    /// schema.
    filled: BTreeMap<Binary, Filled>,
}

struct Filled {
    url: String,
    folder: PathBuf,
}

impl Services {
    /// Starts the services and fills them with hosts whose keys are of this kind. The test
    /// kit panics if one is not installed, and says what to install.
    pub(crate) async fn start(
        wanted: &BTreeSet<Service>,
        workspace: &Workspace,
        options: &Options,
        key: KeyKind,
        hosts: usize,
    ) -> Result<Self> {
        let core = options.client_core;
        let mut services = Self::default();
        if wanted.contains(&Service::Redis) {
            let redis = RedisServer::start();
            services.redis_tie = Some(Tie::new(redis.pid())?);
            pin(redis.pid(), core)?;
            fill(&redis, Folder(&workspace.fixture(key, hosts)), hosts)?;
            services.redis = Some(redis);
        }
        if wanted.contains(&Service::Postgres) {
            let server = Arc::new(Postgres::start());
            pin(server.pid(), core)?;
            let mut filled = BTreeMap::new();
            for binary in options.binaries() {
                let url = server.database();
                let import = workspace.import_into(options, *binary, key, hosts, &url);
                let folder = import.await?;
                filled.insert(*binary, Filled { url, folder });
            }
            services.postgres = Some(Database { server, filled });
        }
        if wanted.contains(&Service::Endpoint) {
            let fixture = workspace.fixture(key, hosts).into_os_string();
            let more = ["--count=1".into(), "--fixture".into(), fixture];
            services.endpoint = Some(upstreams::launch(core, &more).await?);
        }
        Ok(services)
    }

    /// Moves the services away: servers reach them through relays from now on.
    pub(crate) fn move_away(&mut self, round_trip: Duration) -> Result<()> {
        let redis = self.redis.as_ref();
        let redis = redis.map(|redis| (Service::Redis, redis.port()));
        let postgres = self.postgres.as_ref();
        let postgres = postgres.map(|database| (Service::Postgres, database.server.port()));
        for (service, port) in redis.into_iter().chain(postgres) {
            self.relays.insert(service, Relay::start(port, round_trip)?);
        }
        Ok(())
    }

    /// Returns the port at which servers reach a service.
    fn port(&self, service: Service) -> Result<u16> {
        let own = match service {
            Service::Redis => self.redis()?.port(),
            Service::Postgres => self.postgres()?.server.port(),
            Service::Endpoint => bail!("nothing is between servers and the endpoint"),
        };
        Ok(self.relays.get(&service).map_or(own, Relay::port))
    }

    pub(crate) fn remote(&self, service: Service, binary: Binary) -> Result<Remote> {
        let port = self.port(service)?;
        Ok(match service {
            Service::Redis => Remote {
                url: format!("redis://127.0.0.1:{port}"),
                master_key: None,
            },
            Service::Endpoint => bail!("sekisho reads from no endpoint"),
            Service::Postgres => {
                let database = self.postgres()?;
                let filled = database.of(binary)?;
                let own = format!(":{}/", database.server.port());
                Remote {
                    url: filled.url.replace(&own, &format!(":{port}/")),
                    master_key: Some(filled.folder.join("master.key")),
                }
            }
        })
    }

    pub(crate) fn redis_port(&self) -> Result<u16> {
        self.port(Service::Redis)
    }

    /// Returns the URL of the endpoint; empty if there is none.
    pub(crate) fn endpoint(&self) -> String {
        let running = self.endpoint.as_ref();
        running.map_or_else(String::new, |(_, port)| {
            format!("http://{}/", upstream::address(0, *port))
        })
    }

    pub(crate) fn cpu(&self, service: Service) -> Result<CpuTime> {
        CpuTime::read(match service {
            Service::Redis => self.redis()?.pid(),
            Service::Postgres => self.postgres()?.server.pid(),
            Service::Endpoint => {
                let running = self.endpoint.as_ref().and_then(|(child, _)| child.id());
                running.context("the endpoint does not run")?
            }
        })
    }

    /// Pauses a service until the guard is dropped: its sockets accept, but
    /// answer nothing.
    pub(crate) fn stop(&self, service: Service) -> Result<Stopped<'_>> {
        Ok(match service {
            Service::Redis => {
                let redis = self.redis()?;
                redis.pause();
                Stopped::Redis(redis)
            }
            Service::Postgres => {
                let server = &self.postgres()?.server;
                server.signal(Signal::Pause);
                Stopped::Postgres(server)
            }
            Service::Endpoint => bail!("no row stops the endpoint"),
        })
    }

    /// Holds all lookups of a service for 0.5 s. That lets many clients arrive,
    /// and is shorter than every bound of the server.
    pub(crate) fn hold(&self, service: Service, binary: Binary) -> Result<Held> {
        match service {
            Service::Redis => {
                self.redis()?.cli(&["client", "pause", "500", "all"]);
                Ok(Held(None))
            }
            Service::Postgres => {
                let database = self.postgres()?;
                let name = database.of(binary)?.name().to_owned();
                let server = Arc::clone(&database.server);
                Ok(Held(Some(thread::spawn(move || server.sql(&name, LOCK)))))
            }
            Service::Endpoint => bail!("no row holds the endpoint"),
        }
    }

    /// Returns the number of MGET calls of Redis so far.
    pub(crate) fn mgets(&self) -> Result<u64> {
        let stats = self.redis()?.cli(&["info", "commandstats"]);
        let line = stats
            .lines()
            .find_map(|line| line.strip_prefix("cmdstat_mget:calls="));
        let calls = line.and_then(|rest| rest.split(',').next());
        calls.map_or(Ok(0), |calls| Ok(calls.parse()?))
    }

    fn redis(&self) -> Result<&RedisServer> {
        self.redis.as_ref().context("Redis was not started")
    }

    fn postgres(&self) -> Result<&Database> {
        self.postgres.as_ref().context("PostgreSQL was not started")
    }
}

/// Guard of a paused store, which resumes it when dropped.
pub(crate) enum Stopped<'a> {
    Redis(&'a RedisServer),
    Postgres(&'a Postgres),
    /// Files with a guard of their own.
    Files {
        _guard: Hung,
    },
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        match self {
            Self::Redis(redis) => redis.resume(),
            Self::Postgres(server) => server.signal(Signal::Resume),
            Self::Files { .. } => {}
        }
    }
}

/// Guard of a held service; the hold ends by itself.
pub(crate) struct Held(Option<JoinHandle<String>>);

impl Held {
    pub(crate) fn ended(self) -> Result<()> {
        if let Some(thread) = self.0 {
            let said = thread.join();
            ensure!(said.is_ok(), "the table could not be locked");
        }
        Ok(())
    }
}

impl Database {
    fn of(&self, binary: Binary) -> Result<&Filled> {
        let filled = self.filled.get(&binary);
        filled.context("PostgreSQL was not filled for this binary")
    }
}

impl Filled {
    fn name(&self) -> &str {
        let path = self.url.rsplit('/').next().unwrap_or_default();
        path.split('?').next().unwrap_or_default()
    }
}

/// Pins a process, with all it starts later, to a core.
fn pin(pid: u32, core: usize) -> Result<()> {
    let done = Command::new("taskset")
        .args(["-acp", &core.to_string(), &pid.to_string()])
        .output()
        .context("cannot run taskset")?;
    ensure!(
        done.status.success(),
        "cannot pin process {pid} to core {core}"
    );
    Ok(())
}

/// Fills Redis with chains and keys as plain strings, as redis-cli SET would
/// store them.
fn fill(redis: &RedisServer, fixture: Folder<'_>, hosts: usize) -> Result<()> {
    let begin = Instant::now();
    let client = ::redis::Client::open(("127.0.0.1", redis.port()))?;
    let mut connection = client.get_connection()?;
    for first in (0..hosts).step_by(AT_ONCE) {
        let mut commands = ::redis::pipe();
        for number in first..hosts.min(first + AT_ONCE) {
            let name = host_name(number);
            let (chain, key) = (fixture.chain(&name), fixture.key(&name));
            commands
                .set(format!("{name}.crt"), fs::read(chain)?)
                .ignore();
            commands.set(format!("{name}.key"), fs::read(key)?).ignore();
        }
        let () = commands.query(&mut connection)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    eprintln!("filled Redis with {hosts} hosts in {seconds:.1} s");
    Ok(())
}

/// All reads of hosts wait until this transaction ends.
const LOCK: &str = "BEGIN; LOCK TABLE sekisho.hosts IN ACCESS EXCLUSIVE MODE; \
                    SELECT pg_sleep(0.5); COMMIT";
/// Hosts per write.
const AT_ONCE: usize = 500;
