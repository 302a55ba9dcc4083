//! Upstream servers: the state that all sites and workers share of each.

use std::convert::Infallible;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, UnitWeighter};
use sekisho_certs::{HostName, LogLimiter, Tenant, clock};
use tokio::time::Instant;

use super::check::{Checking, Checks, Starting};
use super::choice::{Choice, rendezvous};
use super::chosen::{Chosen, Unavailable};
use super::health::{FailureKind, Health, Site, Trials};
use super::limits::{Retries, Slots};
use super::parts::Upstreams;
use super::resolve::{Asking, Names, Unresolved};
use super::transport::Endpoint;
use crate::metrics::Metrics;
use crate::site::{Address, Upstream};

/// State of upstream servers: requests in flight, health, connections in use. Shared
/// by all workers, and by all sites that name a server's address in the same way.
///
/// Bounded: servers that have had no request lately are forgotten, but none with a
/// request in flight.
pub(crate) struct Servers {
    servers: Cache<Address, Arc<Server>, UnitWeighter, RandomState, InUse>,
    common: Arc<Common>,
    hasher: RandomState,
    /// Number of the next draw.
    draw: AtomicU64,
}

/// Parts that all servers use.
pub(super) struct Common {
    pub(super) names: Names,
    pub(super) checks: Starting,
    pub(super) metrics: Arc<Metrics>,
    /// Hasher of tenants.
    pub(super) hasher: RandomState,
    /// Begin of times in milliseconds.
    epoch: Instant,
    ejected: LogLimiter,
    returned: LogLimiter,
    turned_down: LogLimiter,
    turned_up: LogLimiter,
}

/// Work for servers that no worker does.
pub(crate) struct Background {
    pub(super) asking: Asking,
    pub(super) checking: Checking,
}

/// Facts of a request that its server depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Affinity<'a> {
    pub(crate) client: IpAddr,
    /// Hash of the cookie that the site names.
    pub(crate) cookie: Option<u64>,
    pub(crate) host: &'a HostName,
    pub(crate) tenant: &'a Tenant,
    pub(crate) now: Instant,
}

/// State of one server.
pub(super) struct Server {
    /// Address as sites name it.
    pub(super) address: Address,
    /// Where the server listens; None for a name.
    endpoint: Option<Endpoint>,
    pub(super) common: Arc<Common>,
    /// Relaxed: a choice may see a number from a moment ago.
    pub(super) in_flight: AtomicU32,
    pub(super) health: Health,
    pub(super) checks: Checks,
    pub(super) slots: Arc<Slots>,
    pub(super) retries: Retries,
}

/// Keeps servers that a request uses.
#[derive(Clone, Debug)]
struct InUse;

impl Servers {
    /// Makes the state of no server, and what works for it in the background. Names
    /// are resolved by these name servers, or those of `/etc/resolv.conf` if there
    /// are none.
    pub(crate) fn new(metrics: Arc<Metrics>, name_servers: Vec<SocketAddr>) -> (Self, Background) {
        let options = OptionsBuilder::new()
            .shards(SHARDS)
            .estimated_items_capacity(SERVERS)
            .weight_capacity(SERVERS as u64)
            .build()
            .expect("capacity and estimate are given");
        let hasher = RandomState::default();
        let (names, asking) = Names::new(name_servers, Arc::clone(&metrics));
        let (checks, checking) = Starting::new();
        let servers = Self {
            servers: Cache::with_options(options, UnitWeighter, hasher.clone(), InUse),
            common: Arc::new(Common {
                names,
                checks,
                metrics,
                hasher: hasher.clone(),
                epoch: Instant::now(),
                ejected: LogLimiter::default(),
                returned: LogLimiter::default(),
                turned_down: LogLimiter::default(),
                turned_up: LogLimiter::default(),
            }),
            hasher,
            draw: AtomicU64::new(0),
        };
        (servers, Background { asking, checking })
    }

    /// Chooses the server of a request, other than those `tried` already.
    ///
    /// A healthy server with a free connection comes first. If all are ejected, the
    /// one whose pause ends first is still tried.
    ///
    /// # Errors
    /// [`Unavailable::Tried`].
    pub(crate) fn choose(
        &self,
        upstream: &Arc<Upstream>,
        by: &Affinity<'_>,
        tried: &[usize],
    ) -> Result<Chosen, Unavailable> {
        let site = Site {
            tenant: self.hasher.hash_one(by.tenant),
            settings: self.settings(upstream),
        };
        let choice = Choice {
            servers: self,
            site,
            upstream,
            options: upstream.options(),
            by,
            tried,
            now: self.common.at(by.now),
        };
        let ((index, server), trials) = choice.server().ok_or(Unavailable::Tried)?;
        if tried.is_empty() {
            server.retries.request();
        }
        let host = self.hasher.hash_one(by.host);
        let client = by.client.into();
        Ok(Chosen::new(index, server, host, client, site, trials))
    }

    /// Returns the state of a server.
    pub(super) fn server(&self, address: &Address) -> Arc<Server> {
        if let Some(server) = self.servers.get(address) {
            return server;
        }
        let server = self.servers.get_or_insert_with(address, || {
            Ok::<_, Infallible>(Arc::new(Server {
                endpoint: Endpoint::of(address),
                address: address.clone(),
                in_flight: AtomicU32::new(0),
                health: Health::default(),
                checks: Checks::default(),
                slots: Arc::default(),
                retries: Retries::new(self.common.now()),
                common: Arc::clone(&self.common),
            }))
        });
        server.unwrap_or_else(|never| match never {})
    }

    /// Hashes the settings that a failed request may be due to.
    fn settings(&self, upstream: &Upstream) -> u64 {
        let Some(options) = &upstream.options else {
            return upstream.scheme as u64;
        };
        let timeouts = &options.timeouts;
        let tls = options.tls.as_ref().map(|tls| {
            // Not the whole text of the CAs, for each request.
            let ca = tls.ca.as_deref().unwrap_or_default().as_bytes();
            let end = &ca[ca.len().saturating_sub(HASHED)..];
            (&tls.name, ca.len(), end, &tls.certificate_of)
        });
        let waits = (timeouts.connect, timeouts.first_byte);
        let head = (&options.host, options.proxy_protocol);
        self.hasher
            .hash_one((upstream.scheme, options.protocol, head, waits, tls))
    }

    pub(super) fn random(&self) -> u64 {
        // Relaxed: the number need only be another one.
        let draw = self.draw.fetch_add(1, Ordering::Relaxed);
        rendezvous::mix(self.hasher.hash_one(draw))
    }
}

impl Background {
    /// Resolves names and checks servers until this future is dropped.
    pub(crate) async fn run(self, upstreams: Arc<Upstreams>) {
        tokio::join!(self.asking.run(), self.checking.run(upstreams));
    }
}

impl Common {
    /// Returns the milliseconds since the epoch; never 0.
    pub(super) fn now(&self) -> u64 {
        self.at(clock::monotonic())
    }

    fn at(&self, now: Instant) -> u64 {
        let millis = now.saturating_duration_since(self.epoch).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX - 1) + 1
    }

    /// Logs that a server's check fails from now on, and why, or no longer does.
    pub(super) fn check_turned(&self, server: &Address, problem: Option<String>) {
        // A limit each: a server that is soon up again would else be down by the log.
        match problem {
            Some(problem) => {
                if let Some(others) = self.turned_down.allow() {
                    tracing::warn!(
                        %server, problem, others,
                        "upstream server is down: its check failed twice in a row"
                    );
                }
            }
            None => {
                if let Some(others) = self.turned_up.allow() {
                    let text = "upstream server is up: its check succeeded";
                    tracing::info!(%server, others, "{text}");
                }
            }
        }
    }
}

impl Server {
    /// Returns the place where the server listens; None for a name, which has
    /// [`Self::endpoints`].
    pub(super) fn endpoint(&self) -> Option<&Endpoint> {
        self.endpoint.as_ref()
    }

    /// Returns the places where the server listens, turned by a hash. `tenant` is the hash
    /// of the tenant that asks.
    pub(super) async fn endpoints(
        &self,
        by: u64,
        tenant: u64,
    ) -> Result<Vec<Endpoint>, Unresolved> {
        match (&self.endpoint, &self.address) {
            (None, Address::Tcp { host, port }) => {
                let ips = self.common.names.resolve(host, tenant).await?;
                Ok(turned(&ips, *port, by))
            }
            (endpoint, _) => Ok(endpoint.iter().cloned().collect()),
        }
    }

    /// Notes that a connection came about.
    pub(super) fn reached(&self) {
        let ended = self.health.reached();
        self.log_return(ended);
    }

    /// Notes the end of a request, whatever became of it.
    pub(super) fn ended(&self, site: Site, trials: Trials) {
        if trials.is_any() {
            self.health.give_back(site, trials, self.common.now());
        }
    }

    pub(super) fn succeeded(&self, site: Site) {
        let ended = self.health.succeeded(site);
        self.log_return(ended);
    }

    fn log_return(&self, ended: bool) {
        if ended && let Some(others) = self.common.returned.allow() {
            let server = &self.address;
            tracing::info!(%server, others, "upstream server answers again");
        }
    }

    pub(super) fn failed(&self, failure: FailureKind, site: Site) {
        let (now, metrics) = (self.common.now(), self.common.metrics.upstream());
        let jitter = rendezvous::mix(now ^ site.tenant);
        let health = &self.health;
        let pause = health.failed(failure, site, now, jitter, || metrics.ejected());
        let Some(pause) = pause else { return };
        metrics.ejections.inc();
        if let Some(others) = self.common.ejected.allow() {
            let (server, pause_s) = (&self.address, pause.as_secs_f32());
            let whose = match failure {
                FailureKind::Unreachable => "sites",
                FailureKind::Own => "one tenant's sites",
            };
            tracing::warn!(
                %server, pause_s, others,
                "upstream server ejected: it failed several times in a row; {whose} use their \
                 other servers meanwhile"
            );
        }
    }
}

/// Turns the addresses of each family by a hash: hosts whose server is one name with
/// several addresses spread over them.
fn turned(ips: &[IpAddr], port: u16, by: u64) -> Vec<Endpoint> {
    let first_v6 = ips.iter().position(IpAddr::is_ipv6).unwrap_or(ips.len());
    let (v4, v6) = ips.split_at(first_v6);
    let mut turned = Vec::with_capacity(ips.len());
    for family in [v4, v6].into_iter().filter(|family| !family.is_empty()) {
        let length = family.len();
        #[expect(clippy::cast_possible_truncation, reason = "any number will do")]
        let (before, from) = family.split_at(by as usize % length);
        let family = from.iter().chain(before);
        turned.extend(family.map(|ip| Endpoint::Tcp(SocketAddr::new(*ip, port))));
    }
    turned
}

impl Lifecycle<Address, Arc<Server>> for InUse {
    type RequestState = ();

    fn is_pinned(&self, _: &Address, server: &Arc<Server>) -> bool {
        // Each request in flight holds the server.
        Arc::strong_count(server) > 1
    }
}

/// Some 500 bytes each.
const SERVERS: usize = 4096;
/// Bytes at the end of the CAs' text that are hashed.
const HASHED: usize = 64;
/// Enough that workers seldom wait for each other.
const SHARDS: usize = 4;

#[cfg(test)]
mod tests;
