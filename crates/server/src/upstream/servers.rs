//! Upstream servers: what is known of each, for each owner.

mod check;
pub(in crate::upstream) mod choice;
pub(in crate::upstream) mod chosen;
mod ejection;
pub(in crate::upstream) mod resolve;

use std::convert::Infallible;
use std::hash::BuildHasher as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use foldhash::fast::RandomState;
use quick_cache::Equivalent;
use sekisho_certs::{HostName, LogLimiter, Tenant, clock};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::connections::transport::Endpoint;
use super::failure::Failure;
use super::owned::{OPERATOR, Owned, Owner};
use super::parts::Upstreams;
use super::permits::{Asker, Bounds, PermitsOfOwner, Retries};
use crate::observe::metrics::Metrics;
use crate::site::{Address, Upstream};
use check::{Checked, Checking, Checks};
use choice::{Choice, rendezvous};
use chosen::Chosen;
use ejection::Ejection;
use resolve::{Asking, Names, Unresolved};

/// State of upstream servers: requests in flight, ejection, connections in use. Shared
/// by all workers.
///
/// A server is known anew for each owner and for each set of settings that it is used
/// with: nothing that a tenant's settings, clients or servers spoil is another's. Hosts
/// that `[site]` answers for share the operator's.
///
/// Bounded: servers that have had no request lately are forgotten, but none with a
/// request in flight, unless its owner has its part of the table.
pub(crate) struct Servers {
    servers: Owned<Backend, Server>,
    common: Arc<Common>,
    /// Number of the next draw.
    draw: AtomicU64,
}

/// Key of all state of a server beside its owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Backend {
    /// Hash of the settings that it is used with.
    settings: u64,
    address: Address,
}

/// [`Backend`] that is not made for a look.
#[derive(Hash)]
struct BackendRef<'a> {
    settings: u64,
    address: &'a Address,
}

/// Owner and settings that a request uses a server with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Use<'a> {
    pub(super) owner: Owner,
    /// Hash of the upstream's settings.
    settings: u64,
    pub(super) upstream: &'a Arc<Upstream>,
}

/// Parts that all servers use.
pub(super) struct Common {
    pub(super) names: Names,
    pub(super) checks: Checks,
    pub(super) metrics: Arc<Metrics>,
    /// Hasher of tenants and settings.
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

/// State of one server, as its owner uses it with one set of settings.
pub(super) struct Server {
    /// Address as sites name it.
    pub(super) address: Address,
    /// Where the server listens; None for a name, which has [`Self::endpoints`].
    pub(super) endpoint: Option<Endpoint>,
    pub(super) common: Arc<Common>,
    /// Relaxed: a choice may see a number from a moment ago.
    pub(super) in_flight: AtomicU32,
    pub(super) ejection: Ejection,
    pub(super) checked: Checked,
    pub(super) permits: PermitsOfOwner,
    pub(super) retries: Retries,
    /// Permits to keep unused connections to a FastCGI server, each of which binds a child of
    /// it: of all workers.
    pub(super) kept: Arc<Semaphore>,
}

impl Servers {
    /// Makes the state of no server, and what works for it in the background. Names
    /// are resolved by these name servers, or those of `/etc/resolv.conf` if there
    /// are none.
    pub(crate) fn new(metrics: Arc<Metrics>, name_servers: Vec<SocketAddr>) -> (Self, Background) {
        let (names, asking) = Names::new(name_servers, Arc::clone(&metrics));
        let (checks, checking) = Checks::new();
        let servers = Self {
            servers: Owned::new(ESTIMATED, SERVERS, |_| 1),
            common: Arc::new(Common {
                names,
                checks,
                metrics,
                hasher: RandomState::default(),
                epoch: Instant::now(),
                ejected: LogLimiter::default(),
                returned: LogLimiter::default(),
                turned_down: LogLimiter::default(),
                turned_up: LogLimiter::default(),
            }),
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
    /// [`Failure::Tried`].
    pub(crate) fn choose(
        &self,
        upstream: &Arc<Upstream>,
        by: &Affinity<'_>,
        tried: &[usize],
    ) -> Result<Chosen, Failure> {
        let tenant = self.common.hasher.hash_one(by.tenant);
        let choice = Choice {
            servers: self,
            used: self.used(upstream, tenant),
            tenant,
            by,
            tried,
            now: self.common.at(by.now),
        };
        let ((index, server), trial) = choice.server().ok_or(Failure::Tried)?;
        if tried.is_empty() {
            server.retries.request();
        }
        let host = self.common.hasher.hash_one(by.host);
        let client = by.client.into();
        let (owner, asker) = (choice.used.owner, Asker { host, client });
        Ok(Chosen::new(index, server, owner, tenant, asker, trial))
    }

    /// Returns the owner and settings of an upstream. `tenant` is a hash.
    pub(super) fn used<'a>(&self, upstream: &'a Arc<Upstream>, tenant: u64) -> Use<'a> {
        let settings = match &upstream.options {
            Some(options) => self.common.hasher.hash_one((upstream.scheme, options)),
            None => upstream.scheme as u64,
        };
        Use {
            owner: owner(upstream, tenant),
            settings,
            upstream,
        }
    }

    /// Returns the state of a server.
    pub(super) fn server(&self, used: &Use<'_>, address: &Address) -> Arc<Server> {
        let settings = used.settings;
        let known = BackendRef { settings, address };
        if let Some(server) = self.servers.get(used.owner, &known) {
            return server;
        }
        let backend = Backend {
            settings,
            address: address.clone(),
        };
        let server = self.servers.get_or_make(used.owner, backend, |backend| {
            let bounds = Bounds::of(used.upstream.options());
            Ok::<_, Infallible>(Server {
                endpoint: Endpoint::of(&backend.address),
                address: backend.address.clone(),
                in_flight: AtomicU32::new(0),
                ejection: Ejection::default(),
                checked: Checked::default(),
                permits: PermitsOfOwner::new(bounds, used.upstream.is_bound),
                retries: Retries::new(self.common.now()),
                kept: Arc::new(Semaphore::new(used.upstream.options().keep as usize)),
                common: Arc::clone(&self.common),
            })
        });
        server.unwrap_or_else(|never| match never {})
    }

    pub(super) fn random(&self) -> u64 {
        // Relaxed: the number need only be another one.
        let draw = self.draw.fetch_add(1, Ordering::Relaxed);
        rendezvous::mix(self.common.hasher.hash_one(draw))
    }
}

/// Returns the owner of what is known of an upstream's servers: the operator for `[site]`,
/// else the tenant, by its hash.
fn owner(upstream: &Upstream, tenant: u64) -> Owner {
    match upstream.is_bound {
        true => tenant.max(OPERATOR + 1),
        false => OPERATOR,
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
    /// Returns the server's endpoints, rotated by a hash. `tenant` is the hash
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

    /// Notes an answer.
    pub(super) fn succeeded(&self) {
        if self.ejection.succeeded()
            && let Some(others) = self.common.returned.allow()
        {
            let server = &self.address;
            tracing::info!(%server, others, "upstream server answers again");
        }
    }

    /// Notes a failure.
    pub(super) fn failed(&self) {
        let (now, metrics) = (self.common.now(), self.common.metrics.upstream());
        let jitter = self.common.hasher.hash_one((now, &self.address));
        let pause = self.ejection.failed(now, jitter, || metrics.ejected());
        let Some(pause) = pause else { return };
        metrics.ejections.inc();
        if let Some(others) = self.common.ejected.allow() {
            let (server, pause_s) = (&self.address, pause.as_secs_f32());
            tracing::warn!(
                %server, pause_s, others,
                "upstream server ejected: it failed several times in a row; its owner's sites use \
                 their other servers meanwhile"
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

impl Equivalent<Backend> for BackendRef<'_> {
    fn equivalent(&self, backend: &Backend) -> bool {
        self.settings == backend.settings && *self.address == backend.address
    }
}

/// Servers as their owners use them, some 400 bytes each, and more once requests wait.
const SERVERS: u64 = 65_536;
/// Servers that there is room for at the start.
const ESTIMATED: usize = 4096;

#[cfg(test)]
mod tests;
