//! Reaches a server: its TLS identity and addresses, what the site may connect to,
//! and a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use http::StatusCode;
use rustls::sign::CertifiedKey;
use sekisho_certs::{Cached, HostName, Outcome};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::connect::{self, Opened, Target};
use super::failure::Failure;
use super::lease::Lease;
use super::pool::{Found, Key};
use super::send::Sending;
use super::tls::TlsClient;
use super::transport::Endpoint;
use crate::proxy_protocol;
use crate::site::{Address, OpenSocket, Protocol, UpstreamServer};

impl Sending<'_> {
    /// Takes a connection to a server, or opens one. A `fresh` one is not taken
    /// from the pool.
    pub(super) async fn connect(
        &self,
        server: &UpstreamServer,
        fresh: bool,
    ) -> Result<Lease, (Failure, Option<Key>)> {
        let protocol = self.protocol().map_err(|failure| (failure, None))?;
        let limit = self.upstream.options().timeouts.connect;
        let tls = timeout(limit, self.tls(server, protocol)).await;
        let tls = tls.map_err(|_| (Failure::ConnectLate, None))?;
        let tls = tls.map_err(|problem| (Failure::Settings(problem), None))?;
        let endpoints = resolve(&server.address).await;
        let endpoints = endpoints.map_err(|error| (Failure::Connect(error), None))?;
        let client = match self.upstream.options().proxy_protocol {
            Some(_) => self.context.connection.number(),
            None => 0,
        };
        let mut failed = (Failure::NoServer("no address may be used"), None);
        for endpoint in endpoints {
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
            match self.connect_to(&key, tls.as_deref(), fresh).await {
                Ok(lease) => return Ok(lease),
                Err(failure) => failed = (failure, Some(key)),
            }
        }
        Err(failed)
    }

    async fn connect_to(
        &self,
        key: &Key,
        tls: Option<&TlsClient>,
        fresh: bool,
    ) -> Result<Lease, Failure> {
        let local = self.local();
        let limit = self.upstream.options().timeouts.connect;
        let mut right = None;
        if !fresh {
            match local.upstreams.take(key) {
                Found::One(one) => return Ok(Lease::one(local, key.clone(), one)),
                Found::Two(shared) => return Ok(Lease::two(local, key.clone(), shared)),
                Found::None(None) => {}
                Found::None(Some(opening)) => {
                    // Requests that come meanwhile share the new connection.
                    let taken = timeout(limit, opening.acquire_owned()).await;
                    right = Some(taken.map_err(|_| Failure::ConnectLate)?);
                    match local.upstreams.take(key) {
                        Found::One(one) => return Ok(Lease::one(local, key.clone(), one)),
                        Found::Two(shared) => return Ok(Lease::two(local, key.clone(), shared)),
                        Found::None(_) => {}
                    }
                }
            }
        }
        let socket = self.judge(key).await?;
        let target = Target {
            endpoint: &key.endpoint,
            socket: socket.as_ref(),
            header: self.proxy_header(),
            tls,
            http2: key.protocol == Protocol::Http2,
        };
        let opened = connect::open(&target, limit).await?;
        let lease = match opened {
            Opened::One(one) => {
                if key.protocol == Protocol::Negotiated {
                    local.upstreams.chose_one(key);
                }
                Lease::one(local, key.clone(), one)
            }
            Opened::Two(shared) => {
                local.upstreams.share(key, shared.clone());
                Lease::two(local, key.clone(), shared)
            }
        };
        drop(right);
        Ok(lease)
    }

    /// Asks whether the site may connect to an address. Returns the socket that
    /// was judged, if it is one of the file system.
    async fn judge(&self, key: &Key) -> Result<Option<OpenSocket>, Failure> {
        let guard = self.local().shared.responder.guard();
        let refused = Failure::NoServer("[sites] allow does not allow its address");
        match &key.endpoint {
            Endpoint::Tcp(address) => {
                let host = self.context.host.as_str();
                let allowed = guard.check_address(self.upstream, host, *address);
                allowed.then_some(None).ok_or(refused)
            }
            Endpoint::Unix(path) => {
                let (guard, path) = (Arc::clone(guard), Arc::clone(path));
                let (upstream, host) = (Arc::clone(self.upstream), self.context.host.clone());
                let open = move || guard.open_socket(&upstream, host.as_str(), &path);
                let opened = spawn_blocking(open).await.map_err(io::Error::other);
                let opened = opened.and_then(|opened| opened).map_err(Failure::Connect)?;
                opened.map(Some).ok_or(refused)
            }
        }
    }

    /// Returns the header of the PROXY protocol, if the site asks for one.
    fn proxy_header(&self) -> Vec<u8> {
        let peer = self.context.connection.peer();
        let version = self.upstream.options().proxy_protocol;
        version.map_or_else(Vec::new, |version| {
            proxy_protocol::encode(version, peer.address, peer.listen)
        })
    }

    /// Returns the version of HTTP to speak.
    fn protocol(&self) -> Result<Protocol, Failure> {
        let protocol = self.upstream.options().protocol;
        match (self.upgrades, protocol) {
            (true, Protocol::Negotiated) => Ok(Protocol::Http1),
            (true, Protocol::Http2) => Err(Failure::Refused(StatusCode::NOT_IMPLEMENTED)),
            _ => Ok(protocol),
        }
    }

    /// Returns the TLS of the site's identity. None for a plain upstream.
    async fn tls(
        &self,
        server: &UpstreamServer,
        protocol: Protocol,
    ) -> Result<Option<Arc<TlsClient>>, String> {
        let Some(tls) = &self.upstream.options().tls else {
            return Ok(None);
        };
        let Address::Tcp { host, .. } = &server.address else {
            return Err("TLS needs a TCP address".into());
        };
        let shared = &self.local().shared;
        let Some(name) = &tls.certificate_of else {
            let client = shared.upstream_tls.client(tls, host, protocol, None).await;
            return client.map(Some);
        };
        let certified = self.certificate_of(name).await?;
        let client = shared
            .upstream_tls
            .client(tls, host, protocol, Some(&certified))
            .await;
        client.map(Some)
    }

    /// Returns the certificate of a host of the same tenant.
    async fn certificate_of(&self, name: &HostName) -> Result<Arc<CertifiedKey>, String> {
        let lookup = &self.local().shared.lookup;
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
        if host.record.tenant != *self.context.tenant {
            return Err(format!("the host {name} belongs to another tenant"));
        }
        let credential = host.credentials.first();
        let credential = credential.ok_or_else(|| format!("the host {name} has no certificate"))?;
        Ok(Arc::clone(credential.certified()))
    }
}

/// Finds the places where a server listens.
async fn resolve(address: &Address) -> io::Result<Vec<Endpoint>> {
    match address {
        Address::Unix(path) => Ok(vec![Endpoint::Unix(Arc::from(&**path))]),
        Address::Tcp { host, port } => {
            let found: Vec<SocketAddr> = match host.parse() {
                Ok(ip) => vec![SocketAddr::new(ip, *port)],
                Err(_) => tokio::net::lookup_host((&**host, *port)).await?.collect(),
            };
            Ok(found.into_iter().map(Endpoint::Tcp).collect())
        }
    }
}
