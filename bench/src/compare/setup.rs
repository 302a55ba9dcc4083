//! Setup of a server for a case.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::Options;
use super::apache::Apache;
use super::counters::Support;
use super::limit;
use super::nginx::{Certificates, Nginx};
use super::options::Binary;
use super::password;
use super::peers::{self, Peer};
use super::rows::{Case, Content, Loaded, Measure, Row, Setup, Texts};
use super::scripts;
use super::sekisho::{Sekisho, Store};
use super::server::{Launch, free_address};
use super::services::{Service, Services};
use super::upstreams::Upstreams;
use super::workspace::Workspace;
use crate::fixtures::{Folder, KeyKind, host_name};
use sekisho_bench::tls::Group;

/// Options and resources of a comparison.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) options: &'a Options,
    pub(crate) workspace: &'a Workspace,
    pub(crate) services: &'a Services,
    pub(crate) upstreams: &'a Upstreams,
    /// Hardware counters of this machine.
    pub(crate) support: &'a Support,
}

impl Place<'_> {
    /// Returns the log file for one side of a case.
    pub(crate) fn log(&self, name: &str, side: &str) -> PathBuf {
        self.workspace.log(&format!("{name}-{side}.log"))
    }
}

/// Writes a server's configuration; returns its launch. `preload` overrides
/// a peer's number of hosts; `workers` are those of nginx and sekisho.
pub(crate) fn launch(
    place: Place<'_>,
    row: &Row,
    case: &Case,
    binary: Binary,
    name: &str,
    preload: Option<usize>,
    workers: usize,
) -> Result<Launch> {
    let short = place.options.is_short();
    let fixture = place.workspace.fixture(row.key, row.hosts.count(short));
    let fixture = match row.measure {
        Measure::Stuck { .. } if case.setup.reads_files() => {
            let hanging = place.workspace.hanging();
            hanging.prepare(&fixture, row.hosts.count(short))?;
            hanging.fixture()
        }
        _ => fixture,
    };
    let frame = Frame {
        place,
        row,
        hosts: preload.unwrap_or(row.hosts_of(case.content, short)),
        fixture,
        site: place.workspace.site(),
        content: case.content,
        group: case.group,
        hook: case.hook,
        scratch: place.workspace.scratch(name)?,
        log: place.log(name, "server"),
        address: free_address()?,
        workers,
        is_peer: !case.setup.is_sekisho(),
    };
    match case.setup {
        Setup::Nginx { loaded, file_cache } => frame.nginx(loaded, file_cache, preload),
        Setup::NginxLua => frame.nginx_lua(None),
        Setup::Sekisho { store, memory } => frame.sekisho(binary, store, memory),
        Setup::Apache => frame.apache(),
        Setup::HaProxy => {
            let program = place.options.haproxy.clone();
            // Only a master can reload.
            let mode = match row.measure {
                Measure::Reload | Measure::FirstPage => "-Ws",
                _ => "-db",
            };
            frame.peer(program, &[mode, "-f"], peers::HAPROXY)
        }
        Setup::Caddy => {
            let program = place.options.caddy.clone();
            frame.peer(program, &["run", "--config"], peers::CADDY)
        }
        Setup::NginxNext { loaded, is_cached } => frame.nginx_next(loaded, is_cached),
        Setup::NginxCosocket { is_cached } => frame.nginx_lua(Some(is_cached)),
        Setup::CaddyHttp => {
            let program = place.options.caddy.clone();
            frame.peer(program, &["run", "--config"], peers::CADDY_HTTP)
        }
        Setup::RedisClient | Setup::Cache(_) => bail!("the case has no server"),
    }
}

/// Parameters that all servers share.
struct Frame<'a> {
    place: Place<'a>,
    row: &'a Row,
    hosts: usize,
    fixture: PathBuf,
    site: PathBuf,
    content: Content,
    group: Group,
    hook: Option<&'static str>,
    scratch: PathBuf,
    log: PathBuf,
    address: SocketAddr,
    workers: usize,
    is_peer: bool,
}

impl Frame<'_> {
    fn nginx(self, loaded: Loaded, file_cache: bool, preload: Option<usize>) -> Result<Launch> {
        let hosts = match loaded {
            Loaded::Hundred => 100,
            Loaded::All => self.hosts,
            Loaded::ByVariable => 1,
        };
        let hosts = preload.unwrap_or(hosts);
        let certificates = match loaded {
            Loaded::ByVariable => Certificates::Variable,
            Loaded::Hundred | Loaded::All => Certificates::Preloaded(hosts),
        };
        let bound = self.preload_bound(hosts)?;
        let program = self.place.options.nginx.clone();
        self.nginx_with(program, certificates, file_cache, bound)
    }

    fn nginx_next(self, loaded: Loaded, is_cached: bool) -> Result<Launch> {
        let certificates = match loaded {
            Loaded::ByVariable if is_cached => Certificates::CachedVariable,
            Loaded::ByVariable => Certificates::Variable,
            Loaded::Hundred => Certificates::Preloaded(100),
            Loaded::All => Certificates::Preloaded(self.hosts),
        };
        let bound = self.preload_bound(self.hosts)?;
        let program = self.place.options.nginx_next.clone();
        self.nginx_with(program, certificates, false, bound)
    }

    /// Prepares nginx with Lua, whose worker blocks or caches pairs or not.
    fn nginx_lua(self, is_cached: Option<bool>) -> Result<Launch> {
        let port = self.place.services.redis_port()?;
        let certificates = match is_cached {
            None => Certificates::Blocking(port),
            Some(is_cached) => Certificates::Cosocket(port, is_cached),
        };
        let program = self.place.options.nginx.clone();
        self.nginx_with(program, certificates, false, START_BOUND)
    }

    fn nginx_with(
        self,
        program: PathBuf,
        certificates: Certificates,
        file_cache: bool,
        bound: Duration,
    ) -> Result<Launch> {
        let config = Nginx {
            fixture: match self.row.measure {
                // Its files are replaced while it runs.
                Measure::Month { .. } => Folder(&self.scratch),
                _ => Folder(&self.fixture),
            },
            certificates,
            site: &self.site,
            scratch: &self.scratch,
            address: self.address,
            workers: self.workers,
            file_cache,
            upstreams: match self.content {
                Content::Upstreams(count) => Some((self.place.upstreams.port()?, count)),
                Content::Tenants => Some((self.place.upstreams.port()?, 1)),
                Content::Texts(Texts::Proxied) => Some((self.place.upstreams.port()?, 100)),
                Content::Files
                | Content::Roots
                | Content::Scripts { .. }
                | Content::Password
                | Content::Texts(Texts::Precompressed | Texts::Compressed)
                | Content::Programs(_) => None,
            },
            scripts: match self.content {
                Content::Scripts { keep } => Some((self.place.workspace.php(), keep)),
                _ => None,
            },
            users: self.users()?,
            texts: match self.content {
                Content::Texts(texts) => Some(texts),
                _ => None,
            },
            http2: self.row.measure.is_http2(),
            groups: match self.group {
                Group::X25519 | Group::P256 => "X25519:prime256v1",
                Group::X25519mlkem768 => HYBRID,
            },
        };
        let text = config.config();
        let prefix = self.scratch.display().to_string();
        let arguments = ["-e", "stderr", "-p", &prefix, "-c"].map(str::to_owned);
        self.launch(program, arguments.to_vec(), &text, bound, None)
    }

    /// Writes nginx's file of users if the content asks for a password.
    fn users(&self) -> Result<Option<PathBuf>> {
        if self.content != Content::Password {
            return Ok(None);
        }
        let file = self.scratch.join("users");
        fs::write(&file, password::users())?;
        Ok(Some(file))
    }

    fn apache(self) -> Result<Launch> {
        let programs = self.place.workspace.programs();
        let config = Apache {
            fixture: Folder(&self.fixture),
            hosts: self.hosts,
            certificates: self.row.hosts.count(self.place.options.is_short()),
            site: &self.site,
            programs: match self.content {
                Content::Programs(_) => Some(&programs),
                _ => None,
            },
            scratch: &self.scratch,
            address: self.address,
            connections: match self.row.measure {
                Measure::Requests { connections, .. } | Measure::Wrk { connections, .. } => {
                    connections
                }
                _ => 0,
            },
        };
        let text = config.config();
        let arguments = ["-DFOREGROUND", "-f"].map(str::to_owned);
        let program = self.place.options.apache.clone();
        let bound = self.preload_bound(self.hosts)?;
        self.launch(program, arguments.to_vec(), &text, bound, None)
    }

    /// Prepares a peer whose configuration is a template. It may name a folder with all
    /// certificates.
    fn peer(self, program: PathBuf, arguments: &[&str], template: &str) -> Result<Launch> {
        let bundles = match template.contains("{bundles}") {
            true => peers::bundles(Folder(&self.fixture), self.hosts)?,
            false => PathBuf::new(),
        };
        let peer = Peer {
            address: self.address,
            bundles: &bundles,
            site: &self.site,
            scratch: &self.scratch,
            endpoint: &self.place.services.endpoint(),
        };
        let text = peer.config(template);
        let arguments = arguments.iter().map(|argument| (*argument).to_owned());
        let bound = self.preload_bound(self.hosts)?;
        self.launch(program, arguments.collect(), &text, bound, None)
    }

    fn sekisho(self, binary: Binary, store: Store, memory: &str) -> Result<Launch> {
        let remote = |service: &Service| self.place.services.remote(*service, binary);
        let mut remotes = store.services().iter().map(remote);
        let remote = remotes.next().transpose()?;
        let redis_cache = remotes.next().transpose()?.map(|cache| cache.url);
        // Local stores get no admin listener, to stay comparable with earlier
        // reports, but where its metrics are measured.
        let reads_metrics = remote.is_some() || matches!(self.row.measure, Measure::Hits);
        let admin = reads_metrics.then(free_address).transpose()?;
        let workspace = self.place.workspace;
        let redis = remote.as_ref().map(|remote| remote.url.as_str());
        let hook = match self.hook {
            Some(script) => scripts::section(script, &self.scratch, Folder(&self.fixture), redis)?,
            None => String::new(),
        };
        let is_patient = matches!(self.row.measure, Measure::WaitingMemory { .. });
        let hook = match is_patient && !hook.is_empty() {
            true => hook + scripts::PLACES,
            false => hook,
        };
        let programs = workspace.programs();
        let config = Sekisho {
            fixture: Folder(&self.fixture),
            store,
            memory,
            site: &self.site,
            php: &workspace.php(),
            programs: match self.content {
                Content::Programs(_) => Some(&programs),
                _ => None,
            },
            catalog: &match self.content {
                // Servers of other rows read the store as it was made.
                _ if matches!(self.row.measure, Measure::Month { .. }) => self.scratch.clone(),
                Content::Files => workspace.catalog(binary, self.row.key, self.hosts),
                content => workspace.sites(self.hosts, content),
            },
            remote,
            redis_cache,
            address: self.address,
            admin,
            proxies: self.content != Content::Files,
            hook,
            is_patient,
            workers: self.workers,
        };
        let text = config.config();
        let arguments = ["serve", "--config"].map(str::to_owned);
        let program = self.place.options.program(binary).to_owned();
        self.launch(program, arguments.to_vec(), &text, START_BOUND, admin)
    }

    /// Returns how long a peer may take until it has loaded this many hosts.
    fn preload_bound(&self, hosts: usize) -> Result<Duration> {
        let each = match self.row.key {
            KeyKind::Ecdsa | KeyKind::Rsa2048 => PRELOAD_BOUND,
            KeyKind::Rsa4096 => RSA4096_BOUND,
        };
        Ok(START_BOUND + each * u32::try_from(hosts)?)
    }

    /// Writes the configuration's text, and adds its file as the last argument.
    fn launch(
        self,
        program: PathBuf,
        mut arguments: Vec<String>,
        text: &str,
        bound: Duration,
        admin: Option<SocketAddr>,
    ) -> Result<Launch> {
        let config = self.scratch.join("server.conf");
        fs::write(&config, text)?;
        arguments.push(config.display().to_string());
        Ok(Launch {
            program,
            arguments,
            address: self.address,
            admin,
            core: self.place.options.server_core,
            log: self.log,
            authority: Folder(&self.fixture).root(),
            first_host: host_name(0),
            version: self.row.version,
            field: self.row.needed_field(),
            bound,
            limit: match self.is_peer {
                true => Some(limit::three_quarters()?),
                false => None,
            },
        })
    }
}

pub(super) const HYBRID: &str = "X25519MLKEM768:X25519:prime256v1";
const START_BOUND: Duration = Duration::from_secs(20);
/// nginx takes 1 ms per host, Apache twice as long.
const PRELOAD_BOUND: Duration = Duration::from_millis(4);
/// Both take up to ten times as long to check a key of 4096 bits.
const RSA4096_BOUND: Duration = Duration::from_millis(20);
