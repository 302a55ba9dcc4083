//! Reaches a server: its TLS identity and addresses, what the site may connect to,
//! and a connection.

use std::io;
use std::sync::Arc;

use http::StatusCode;
use rustls::sign::CertifiedKey;
use sekisho_certs::{HostName, LookupError, Outcome, Tenant};
use tokio::time::{Instant, timeout};

use super::chosen::Chosen;
use super::connect::{self, Opened, Target};
use super::failure::Failure;
use super::lease::Lease;
use super::pool::{Found, Key};
use super::send::Sending;
use super::tls::TlsClient;
use super::transport::Endpoint;
use crate::ask::ask_stored;
use crate::budget::Prefix;
use crate::proxy_protocol::encode;
use crate::shared::Shared;
use crate::site::{Address, OpenSocket, Protocol, Upstream};

impl Sending<'_> {
    /// Takes a connection to a server, or opens one. A `fresh` one is not taken
    /// from the pool.
    pub(super) async fn connect(&self, chosen: &mut Chosen, fresh: bool) -> Result<Lease, Failure> {
        let server = &self.upstream.servers[chosen.index()];
        let protocol = self.protocol;
        // Boxed: a plain server at an IP address has no room for them.
        let tls = match self.upstream.options().tls {
            Some(_) => Box::pin(self.tls(&server.address)).await?,
            None => None,
        };
        let (fixed, resolved) = match chosen.server.endpoint() {
            Some(fixed) => (Some(fixed.clone()), Vec::new()),
            None => {
                let resolved = Box::pin(chosen.endpoints()).await;
                let unresolved = |why| Failure::Connect(io::Error::other(why));
                (None, resolved.map_err(unresolved)?)
            }
        };
        let client = match self.upstream.options().proxy_protocol {
            Some(_) => self.context.connection.number(),
            None => 0,
        };
        let tenant = match protocol {
            Protocol::Http2 | Protocol::Negotiated if self.upstream.is_bound => chosen.tenant(),
            _ => 0,
        };
        let mut failed = Failure::NoServer("no address may be used");
        for endpoint in fixed.into_iter().chain(resolved) {
            let key = Key {
                endpoint,
                protocol,
                tls: tls.as_ref().map_or(0, |tls| tls.number),
                client,
                judged: self.judged(),
                tenant,
            };
            if let Some(entry) = self.context.entry {
                entry.asks_upstream(&key.endpoint);
            }
            match self.connect_to(&key, tls.as_deref(), chosen, fresh).await {
                Ok(lease) => return Ok(lease),
                Err(failure) if failure.is_busy() => return Err(failure),
                Err(failure) => failed = failure,
            }
        }
        Err(failed)
    }

    async fn connect_to(
        &self,
        key: &Key,
        tls: Option<&TlsClient>,
        chosen: &mut Chosen,
        fresh: bool,
    ) -> Result<Lease, Failure> {
        let (local, options) = (self.local(), self.upstream.options());
        let limit = options.timeouts.connect;
        let mut right = None;
        if !fresh {
            let mut found = local.upstreams.take(key);
            if let Found::None(Some(opening)) = found {
                // Requests that come meanwhile share the new connection.
                let taken = timeout(limit, opening.acquire_owned()).await;
                right = Some(taken.map_err(|_| Failure::BeginLate)?);
                found = local.upstreams.take(key);
            }
            match found {
                Found::Two(shared) => {
                    return Ok(Lease::two(local, key.clone(), shared, true));
                }
                Found::One(one) => {
                    let slot = chosen.slot(options).await?;
                    return Ok(Lease::one(local, key.clone(), one, slot));
                }
                Found::None(_) => {}
            }
        }
        // Boxed: a request that finds a connection has no room for it.
        let opened = Box::pin(self.open(key, tls, chosen)).await;
        drop(right);
        opened
    }

    /// Opens a connection.
    async fn open(
        &self,
        key: &Key,
        tls: Option<&TlsClient>,
        chosen: &mut Chosen,
    ) -> Result<Lease, Failure> {
        let (local, options) = (self.local(), self.upstream.options());
        let limit = options.timeouts.connect;
        let slot = chosen.slot(options).await?;
        let socket = self.site().judge(&key.endpoint).await?;
        let target = Target {
            endpoint: &key.endpoint,
            socket: socket.as_ref(),
            header: self.proxy_header(),
            tls,
            http2: key.protocol == Protocol::Http2,
        };
        let opened = connect::open(&target, limit, || chosen.reached());
        let prefix = self.context.client.into();
        match local.openings.begin(prefix, opened).await? {
            Opened::One(one) => {
                if key.protocol == Protocol::Negotiated {
                    local.upstreams.chose_one(key);
                }
                Ok(Lease::one(local, key.clone(), one, slot))
            }
            Opened::Two(shared) => {
                shared.streams.keep(slot);
                local.upstreams.share(key, shared.clone());
                Ok(Lease::two(local, key.clone(), shared, false))
            }
        }
    }

    /// Returns the TLS of the site's identity, within the time of a connection.
    async fn tls(&self, address: &Address) -> Result<Option<Arc<TlsClient>>, Failure> {
        let limit = self.upstream.options().timeouts.connect;
        let tls = timeout(limit, self.site().tls(address, self.protocol)).await;
        tls.map_err(|_| Failure::BeginLate)?
    }

    /// Returns the edition of the own addresses that a new connection is judged by. Those
    /// that were judged by an older one are not used again.
    fn judged(&self) -> Option<u64> {
        let guard = self.local().shared.responder.guard();
        self.upstream.is_bound.then(|| guard.edition())
    }

    fn site(&self) -> Site<'_> {
        Site {
            shared: &self.local().shared,
            upstream: self.upstream,
            host: self.context.host,
            tenant: self.context.tenant,
            prefix: self.context.connection.prefix(),
        }
    }

    /// Returns the header of the PROXY protocol, if the site asks for one.
    fn proxy_header(&self) -> Vec<u8> {
        let connection = self.context.connection;
        let version = self.upstream.options().proxy_protocol;
        version.map_or_else(Vec::new, |version| {
            encode(version, connection.peer(), connection.server())
        })
    }
}

/// Returns the version of HTTP to speak where the site says `protocol`.
///
/// # Errors
/// 501 for an upgrade, where the version must be HTTP/2.
pub(super) fn version(protocol: Protocol, upgrades: bool) -> Result<Protocol, StatusCode> {
    match (upgrades, protocol) {
        (true, Protocol::Negotiated) => Ok(Protocol::Http1),
        (true, Protocol::Http2) => Err(StatusCode::NOT_IMPLEMENTED),
        _ => Ok(protocol),
    }
}

/// Site that connects to a server.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) shared: &'a Shared,
    pub(super) upstream: &'a Arc<Upstream>,
    pub(super) host: &'a HostName,
    pub(super) tenant: &'a Tenant,
    /// Client prefix that lookups are charged to.
    pub(super) prefix: Prefix,
}

impl Site<'_> {
    /// Asks whether the site may connect to an address. Returns the socket that
    /// was judged, if it is one of the file system.
    pub(super) async fn judge(self, endpoint: &Endpoint) -> Result<Option<OpenSocket>, Failure> {
        let guard = self.shared.responder.guard();
        let refused = Failure::NoServer("[sites] allow does not allow its address");
        match endpoint {
            Endpoint::Tcp(address) => {
                let host = self.host.as_str();
                let allowed = guard.check_address(self.upstream, host, *address);
                allowed.then_some(None).ok_or(refused)
            }
            Endpoint::Unix(path) => {
                let (guard, path) = (Arc::clone(guard), Arc::clone(path));
                let (upstream, host) = (Arc::clone(self.upstream), self.host.clone());
                let open = move || guard.open_socket(&upstream, host.as_str(), &path);
                let until = Instant::now() + self.upstream.options().timeouts.connect;
                let turns = &self.shared.socket_turns;
                let opened = turns.open(self.tenant, until, open).await?;
                opened.map(Some).ok_or(refused)
            }
        }
    }

    /// Returns the TLS of the site's identity. None for a plain upstream.
    pub(super) async fn tls(
        self,
        address: &Address,
        protocol: Protocol,
    ) -> Result<Option<Arc<TlsClient>>, Failure> {
        let Some(tls) = &self.upstream.options().tls else {
            return Ok(None);
        };
        let Address::Tcp { host, .. } = address else {
            return Err(Failure::Settings("TLS needs a TCP address".into()));
        };
        let certified = match &tls.certificate_of {
            Some(name) => Some(self.certificate_of(name).await?),
            None => None,
        };
        let clients = &self.shared.upstream_tls;
        let client = clients.client(tls, host, protocol, certified.as_ref());
        client.await.map(Some).map_err(Failure::Settings)
    }

    /// Returns the certificate of a host of the same tenant. None is obtained for it.
    async fn certificate_of(self, name: &HostName) -> Result<Arc<CertifiedKey>, Failure> {
        let wrong = |what: &str| Err(Failure::Settings(format!("the host {name} {what}")));
        let clients = &self.shared.upstream_tls;
        if clients.is_absent(name) {
            return wrong(ABSENT);
        }
        let (lookup, budget) = (&self.shared.lookup, &self.shared.budget);
        let deadline = Instant::now() + self.upstream.options().timeouts.connect;
        let served = match ask_stored(lookup, budget, name, self.prefix, deadline).await {
            Outcome::Found(served) => served,
            Outcome::Absent(_)
            | Outcome::Failed(LookupError::NotObtained(_) | LookupError::NotDue) => {
                clients.note_absent(name);
                return wrong(ABSENT);
            }
            Outcome::Failed(error) => {
                let why = format!("the host {name} could not be looked up: {error}");
                return Err(Failure::Lookup(why));
            }
        };
        let host = served.host();
        if host.record.tenant != *self.tenant {
            return wrong("of the client certificate belongs to another tenant");
        }
        match host.credentials.first() {
            Some(credential) => Ok(Arc::clone(credential.certified())),
            None => wrong(ABSENT),
        }
    }
}

const ABSENT: &str = "of the client certificate is not there, or has no certificate";
