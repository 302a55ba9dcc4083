//! Rows, cases and goals: the types of the tables.

pub(crate) mod figure;

mod content;
mod goal;

use std::time::Duration;

pub(crate) use self::content::{Content, Texts};
pub(crate) use self::goal::{Goal, Scale};
use super::sekisho::Store;
use super::server::PAGE;
use super::services::Service;
use super::{codings, password};
use crate::fixtures::KeyKind;
use sekisho_bench::tls::{Group, Version};

/// Comparison of several servers, with the same work and certificates.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) key: KeyKind,
    pub(crate) hosts: Hosts,
    pub(crate) version: Version,
    pub(crate) measure: Measure,
    /// Cases; the first divides the others.
    pub(crate) cases: &'static [Case],
    pub(crate) goals: &'static [Goal],
    /// Takes minutes or gigabytes. A quick run leaves the row out unless it is
    /// named.
    pub(crate) heavy: bool,
    /// Most rounds: each start of a row with many preloaded hosts takes minutes.
    pub(crate) most_rounds: usize,
    /// Workers of nginx and of sekisho.
    pub(crate) workers: usize,
    /// Round trip to the services behind the servers, by a relay; None for without one.
    pub(crate) round_trip: Option<Duration>,
}

impl Row {
    /// Returns the number of rounds. Some rows take minutes, and a second round
    /// adds little.
    pub(crate) fn rounds(&self, wanted: usize) -> usize {
        match self.measure {
            Measure::Soak { .. }
            | Measure::Propagation { .. }
            | Measure::Month { .. }
            | Measure::Hits => 1,
            _ => wanted.min(self.most_rounds),
        }
    }

    /// Returns whether the row's work trains an instrumented build: the work of servers,
    /// over and over, and one start.
    pub(crate) fn is_training(&self) -> bool {
        let works = match self.measure {
            Measure::Handshakes { .. }
            | Measure::Requests { .. }
            | Measure::AnyHost { .. }
            | Measure::Streams { .. }
            | Measure::Downloads { .. }
            | Measure::Echoes { .. }
            | Measure::StartUp => true,
            Measure::IdleMemory { .. }
            | Measure::HostMemory { .. }
            | Measure::WaitingMemory { .. }
            | Measure::WorkerMemory { .. }
            | Measure::FirstByte { .. }
            | Measure::Soak { .. }
            | Measure::Loaded { .. }
            | Measure::Stuck { .. }
            | Measure::HookStuck { .. }
            | Measure::Herd { .. }
            | Measure::Propagation { .. }
            | Measure::Month { .. }
            | Measure::Hits
            | Measure::Reload
            | Measure::FirstPage
            | Measure::Siege { .. }
            | Measure::Wrk { .. }
            | Measure::Programs { .. }
            | Measure::Servers { .. } => false,
        };
        // A build needs neither PHP nor peers.
        works && !self.heavy && !self.needs_php()
    }

    pub(crate) fn needs_service(&self) -> bool {
        self.cases
            .iter()
            .any(|case| !case.setup.services().is_empty())
    }

    pub(crate) fn needs_catalog(&self) -> bool {
        let reads = |case: &Case| case.setup.reads_catalog() && case.content == Content::Files;
        self.cases.iter().any(reads)
    }

    /// Returns what host records say, for the catalogs that the row needs beside
    /// the one of all rows.
    pub(crate) fn contents(&self) -> impl Iterator<Item = Content> {
        let sites = |case: &&Case| case.setup.is_sekisho() && case.content != Content::Files;
        self.cases.iter().filter(sites).map(|case| case.content)
    }

    /// Returns whether php-fpm runs behind the servers.
    pub(crate) fn needs_php(&self) -> bool {
        let is_script = |case: &Case| matches!(case.content, Content::Scripts { .. });
        self.cases.iter().any(is_script)
    }

    /// Returns the number of hosts that a case with this content has.
    pub(crate) fn hosts_of(&self, content: Content, quick: bool) -> usize {
        let hosts = match content {
            Content::Programs(hosts) => hosts,
            Content::Files
            | Content::Roots
            | Content::Upstreams(_)
            | Content::Tenants
            | Content::Scripts { .. }
            | Content::Password
            | Content::Texts(_) => self.hosts,
        };
        hosts.count(quick)
    }

    /// Returns the field that all measured requests of the row have.
    pub(crate) fn field(&self) -> Option<&'static str> {
        self.needed_field().or(self.texts().map(|_| codings::FIELD))
    }

    /// Returns the path of the row's page.
    pub(crate) fn page(&self) -> &'static str {
        self.texts().map_or(PAGE, codings::path)
    }

    fn texts(&self) -> Option<Texts> {
        self.cases.iter().find_map(|case| match case.content {
            Content::Texts(texts) => Some(texts),
            _ => None,
        })
    }

    /// Returns the field without which requests of the row are refused. Cases without a
    /// password have it, too: their requests are as long.
    pub(crate) fn needed_field(&self) -> Option<&'static str> {
        let asks = |case: &Case| case.content == Content::Password;
        self.cases.iter().any(asks).then_some(password::FIELD)
    }

    pub(crate) fn needs_upstreams(&self) -> bool {
        self.cases.iter().any(|case| case.content.is_proxied())
    }
}

/// Number of hosts in the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Hosts {
    /// This many in each run.
    Exactly(usize),
    /// 100,000, or 10,000 in a quick run.
    Many,
    /// The first number, or the second one in a quick run.
    Either(usize, usize),
}

impl Hosts {
    pub(crate) fn count(self, quick: bool) -> usize {
        match self {
            Self::Exactly(hosts) => hosts,
            Self::Many if quick => 10_000,
            Self::Many => 100_000,
            Self::Either(_, hosts) if quick => hosts,
            Self::Either(hosts, _) => hosts,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Measure {
    /// CPU time of the server per connection with one request.
    Handshakes { count: u64, resumed: bool },
    /// CPU time of the server per request on connections that stay open.
    Requests { connections: usize, each: u64 },
    /// CPU time of the server per request, each for another host.
    AnyHost { connections: usize, each: u64 },
    /// CPU time of the server per request on an HTTP/2 connection with this many
    /// streams.
    Streams { streams: usize, count: u64 },
    /// CPU time of the server per file of 100 MB, one after the other.
    Downloads { count: u64 },
    /// CPU time of the server per message of 64 bytes and its echo.
    Echoes { connections: usize, each: u64 },
    /// Time from a request for a CGI program to the first byte of its answer, one after the
    /// other on one connection.
    FirstByte { count: u64 },
    /// Growth of memory per connection that has had one request.
    IdleMemory { connections: usize, http2: bool },
    /// Growth of memory per host that is ready to be served.
    HostMemory { from: usize, to: usize },
    /// Growth of memory per handshake that waits.
    WaitingMemory { connections: usize },
    /// Memory of each further worker, all of which have served.
    WorkerMemory { workers: usize },
    /// Time from before the fork to the first answered request.
    StartUp,
    /// Memory after this many handshakes, each for another host as long as
    /// there are any.
    Soak { handshakes: u64 },
    /// Times of connections with one request that begin by the clock, at this percentage of
    /// the rate that saturates the first case. Every second one is to one of 100 hosts.
    Loaded { percent: u32, seconds: u32 },
    /// Handshakes for cached hosts at this rate, while the store answers and
    /// while it is paused.
    Stuck { seconds: u32, rate: u32 },
    /// Handshakes for cached hosts at this rate, while no handshake waits in the hook
    /// and while some do.
    HookStuck { seconds: u32, rate: u32 },
    /// Store calls of this many concurrent connections for one uncached host.
    Herd { connections: usize },
    /// Time from the commit of a change to the handshake that shows it, on each
    /// of three servers.
    Propagation { changes: usize },
    /// Figures over an accelerated month, at whose end there are this many times the hosts.
    Month { times: usize },
    /// Hits of the memory cache, or the memory for them.
    Hits,
    /// Time from a signal until a changed configuration is served, and memory meanwhile.
    Reload,
    /// Time from a new host's record to its first page.
    FirstPage,
    /// Seconds in which siege's clients have had this many pages each, of any hosts.
    Siege { clients: u64, each: u64 },
    /// CPU time of the server per request that wrk sends on connections that stay open.
    Wrk { connections: usize, seconds: u64 },
    /// Kernel's part of the CPU time of CGI programs, for so many seconds at half of the rate
    /// that saturates.
    Programs { count: u64, seconds: u64 },
    /// Handshakes by servers of one store, and the time until all serve a new host.
    Servers { servers: usize, count: u64 },
}

impl Measure {
    pub(crate) fn is_http2(self) -> bool {
        matches!(
            self,
            Self::Streams { .. } | Self::IdleMemory { http2: true, .. }
        )
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) label: &'static str,
    pub(crate) setup: Setup,
    /// Key exchange group that the client offers, alone.
    pub(crate) group: Group,
    pub(crate) asked: Asked,
    pub(crate) content: Content,
    /// Script of the handshake hook, if there is one.
    pub(crate) hook: Option<&'static str>,
    /// Runs with `--with-preloaded-100k` only: it takes minutes to start, and
    /// gigabytes of memory.
    pub(crate) optional: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Setup {
    Nginx {
        loaded: Loaded,
        file_cache: bool,
    },
    /// nginx that reads from Redis in Lua, which blocks its worker, and caches
    /// the pairs.
    NginxLua,
    Sekisho {
        store: Store,
        memory: &'static str,
    },
    /// Apache with all hosts. Its children start CGI programs if the content says so.
    Apache,
    /// HAProxy with all hosts' certificates, which answers with the page itself.
    HaProxy,
    /// Caddy with all hosts' certificates from a folder.
    Caddy,
    /// Redis client in the servers' place.
    RedisClient,
    /// nginx 1.28 with a current OpenSSL; whether it caches certificates by variable.
    NginxNext {
        loaded: Loaded,
        is_cached: bool,
    },
    /// nginx that reads from Redis in Lua, which does not block its worker; whether the worker
    /// caches the pairs.
    NginxCosocket {
        is_cached: bool,
    },
    /// Caddy that asks an endpoint for the certificate of each handshake.
    CaddyHttp,
    /// Simulated memory cache, or the search for its size.
    Cache(Option<&'static str>),
}

impl Setup {
    pub(crate) fn is_sekisho(self) -> bool {
        matches!(self, Self::Sekisho { .. })
    }

    pub(crate) fn is_client(self) -> bool {
        matches!(self, Self::RedisClient)
    }

    /// Returns the services behind the server, the store first.
    pub(crate) fn services(self) -> &'static [Service] {
        match self {
            Self::Nginx { .. }
            | Self::NginxNext { .. }
            | Self::Apache
            | Self::HaProxy
            | Self::Caddy
            | Self::Cache(_) => &[],
            Self::NginxLua | Self::NginxCosocket { .. } | Self::RedisClient => &[Service::Redis],
            Self::CaddyHttp => &[Service::Endpoint],
            Self::Sekisho { store, .. } => store.services(),
        }
    }

    /// Returns the store's service; None for a store without one.
    pub(crate) fn service(self) -> Option<Service> {
        self.services().first().copied()
    }

    pub(crate) fn has_redis_cache(self) -> bool {
        matches!(
            self,
            Self::Sekisho {
                store: Store::RedisCache,
                ..
            }
        )
    }

    /// Returns whether a peer reads the files of a host in each handshake with it.
    pub(crate) fn reads_files(self) -> bool {
        let (Self::Nginx { loaded, .. } | Self::NginxNext { loaded, .. }) = self else {
            return false;
        };
        matches!(loaded, Loaded::ByVariable)
    }

    pub(crate) fn reads_catalog(self) -> bool {
        matches!(
            self,
            Self::Sekisho {
                store: Store::Sqlite,
                ..
            }
        )
    }
}

/// Certificates that nginx has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Loaded {
    Hundred,
    All,
    ByVariable,
}

/// Hosts that the client requests, in order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Asked {
    Hundred,
    All,
    /// The n-th of all hosts in proportion to n to the power of minus this.
    Zipf(f64),
}
