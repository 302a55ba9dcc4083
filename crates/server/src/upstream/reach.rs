//! Reaches a server: its TLS identity and addresses, what the site may connect to,
//! and a connection.

use std::io;
use std::sync::Arc;

use http::StatusCode;
use rustls::sign::CertifiedKey;
use sekisho_certs::{Cached, HostName, Outcome, Tenant};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::chosen::Chosen;
use super::connect::{self, Opened, Target};
use super::failure::Failure;
use super::lease::Lease;
use super::pool::{Found, Key};
use super::send::Sending;
use super::tls::TlsClient;
use super::transport::Endpoint;
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
        let mut failed = Failure::NoServer("no address may be used");
        for endpoint in fixed.into_iter().chain(resolved) {
            let key = Key {
                endpoint,
                protocol,
                tls: tls.as_ref().map_or(0, |tls| tls.number),
                client,
                bound: self.upstream.is_bound,
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
        match connect::open(&target, limit, || chosen.reached()).await? {
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
        let tls = tls.map_err(|_| Failure::BeginLate)?;
        tls.map_err(Failure::Settings)
    }

    fn site(&self) -> Site<'_> {
        Site {
            shared: &self.local().shared,
            upstream: self.upstream,
            host: self.context.host,
            tenant: self.context.tenant,
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
                let opened = spawn_blocking(open).await.map_err(io::Error::other);
                let opened = opened.and_then(|opened| opened).map_err(Failure::Connect)?;
                opened.map(Some).ok_or(refused)
            }
        }
    }

    /// Returns the TLS of the site's identity. None for a plain upstream.
    pub(super) async fn tls(
        self,
        address: &Address,
        protocol: Protocol,
    ) -> Result<Option<Arc<TlsClient>>, String> {
        let Some(tls) = &self.upstream.options().tls else {
            return Ok(None);
        };
        let Address::Tcp { host, .. } = address else {
            return Err("TLS needs a TCP address".into());
        };
        let certified = match &tls.certificate_of {
            Some(name) => Some(self.certificate_of(name).await?),
            None => None,
        };
        let clients = &self.shared.upstream_tls;
        let client = clients.client(tls, host, protocol, certified.as_ref());
        client.await.map(Some)
    }

    /// Returns the certificate of a host of the same tenant.
    async fn certificate_of(self, name: &HostName) -> Result<Arc<CertifiedKey>, String> {
        let lookup = &self.shared.lookup;
        let outcome = match lookup.cached(name) {
            Cached::Hit(outcome) => outcome,
            Cached::InFlight(wait) => wait.await,
            Cached::Miss => lookup.load(name).await,
        };
        let Outcome::Found(served) = outcome else {
            return Err(format!(
                "the host {name} of the client certificate is not there"
            ));
        };
        let host = served.host();
        if host.record.tenant != *self.tenant {
            return Err(format!("the host {name} belongs to another tenant"));
        }
        let credential = host.credentials.first();
        let credential = credential.ok_or_else(|| format!("the host {name} has no certificate"))?;
        Ok(Arc::clone(credential.certified()))
    }
}
