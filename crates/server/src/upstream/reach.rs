//! Reaches a server: its addresses, and a connection to one of them.

use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::poll_immediate;
use http::StatusCode;
use sekisho_certs::clock;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::yield_now;
use tokio::time::{Instant, timeout_at};

use super::connections::connect::{self, Target};
use super::connections::descriptors::Descriptor;
use super::connections::identity::Caller;
use super::connections::lease::Lease;
use super::connections::pool::{Found, Key, Opened};
use super::connections::tls::TlsClient;
use super::connections::transport::Endpoint;
use super::failure::{Failure, Own, Waited};
use super::owned::Owner;
use super::permits::Permit;
use super::send::Sending;
use super::servers::chosen::Chosen;
use crate::connection::proxy_protocol::encode;
use crate::site::{OpenSocket, Protocol};

/// Time of a request to get a connection to a server: `timeouts.connect`, over all steps
/// and addresses.
struct Connecting {
    until: Instant,
    /// Part of it that the server had.
    at_server: Duration,
    /// Addresses that were not tried yet.
    others: usize,
    /// No connection is taken from the pool.
    is_fresh: bool,
}

impl Sending<'_> {
    /// Takes a connection to a server, or opens one. One that `is_fresh` is not taken
    /// from the pool.
    pub(super) async fn connect(
        &self,
        chosen: &Chosen,
        is_fresh: bool,
        now: Instant,
    ) -> Result<Lease, Failure> {
        let server = &self.upstream.servers[chosen.index];
        let (protocol, options) = (self.protocol, self.upstream.options());
        let limit = options.timeouts.connect;
        let mut connecting = Connecting {
            until: now + limit,
            at_server: Duration::ZERO,
            others: 0,
            is_fresh,
        };
        // Boxed: a plain server at an IP address has no room for them.
        let tls = match options.tls {
            Some(_) => {
                let caller = self.caller(chosen.owner);
                Box::pin(caller.tls(&server.address, protocol, connecting.until)).await?
            }
            None => None,
        };
        let (fixed, resolved) = match &chosen.server.endpoint {
            Some(fixed) => (Some(fixed.clone()), Vec::new()),
            None => (None, Box::pin(resolved(chosen, connecting.until)).await?),
        };
        let client = match options.proxy_protocol {
            Some(_) => self.context.connection.number,
            None => 0,
        };
        let mut failed = Failure::NoServer("no address may be used");
        let mut endpoints = fixed.into_iter().chain(resolved);
        while let Some(endpoint) = endpoints.next() {
            let key = Key {
                endpoint,
                protocol,
                tls: tls.as_ref().map_or(0, |tls| tls.number),
                client,
                allowed_by: self.allowed_by(),
                owner: chosen.owner,
            };
            if let Some(entry) = self.context.entry {
                entry.asks_upstream(&key.endpoint);
            }
            connecting.others = endpoints.size_hint().0;
            let lease = self.connect_to(&key, tls.as_deref(), chosen, &mut connecting);
            match lease.await {
                Ok(lease) => return Ok(lease),
                Err(failure) if failure.is_on_our_side() => return Err(failure),
                Err(failure) => failed = failure,
            }
        }
        // A server that had less than half of the time was not late.
        match failed.is_late() && connecting.at_server < limit / 2 {
            true => Err(Own::Late(Waited::Several).into()),
            false => Err(failed),
        }
    }

    async fn connect_to(
        &self,
        key: &Key,
        tls: Option<&TlsClient>,
        chosen: &Chosen,
        connecting: &mut Connecting,
    ) -> Result<Lease, Failure> {
        let mut opening = None;
        let mut found = match key.protocol {
            // Looked for once there is a permit.
            Protocol::FastCgi => Found::Missing(None),
            _ => self.found(key, connecting),
        };
        if let Found::Missing(Some(openings)) = found {
            // Requests that come meanwhile share the new connection.
            let taken = timeout_at(connecting.until, openings.acquire_owned()).await;
            opening = taken.map_err(|_| Own::Late(Waited::Opening))?.ok();
            found = self.found(key, connecting);
        }
        match found {
            Found::Unused(connection @ Opened::Http2(_)) => {
                Ok(Lease::new(self.worker, key, connection, None))
            }
            Found::Unused(connection) => {
                let permit = match chosen.permit_at_once() {
                    Some(permit) => permit,
                    // Boxed: few requests wait.
                    None => Box::pin(chosen.permit(connecting.until)).await?,
                };
                Ok(Lease::new(self.worker, key, connection, Some(permit)))
            }
            // Boxed: a request that finds a connection has no room for it.
            Found::Missing(_) => {
                let opened = self.open(key, tls, chosen, connecting, opening);
                Box::pin(opened).await
            }
        }
    }

    fn found(&self, key: &Key, connecting: &Connecting) -> Found {
        match connecting.is_fresh {
            true => Found::Missing(None),
            false => self.worker.pools.take(key, clock::monotonic()),
        }
    }

    /// Opens a connection once there is a permit for it. One to a FastCGI server is looked for
    /// before: a request that waited for the permit with it would bind a child, for which those
    /// with permits may wait.
    async fn open(
        &self,
        key: &Key,
        tls: Option<&TlsClient>,
        chosen: &Chosen,
        connecting: &mut Connecting,
        opening: Option<OwnedSemaphorePermit>,
    ) -> Result<Lease, Failure> {
        let worker = self.worker;
        let (permit, _opening) = {
            let mut permit = pin!(chosen.permit(connecting.until));
            match poll_immediate(permit.as_mut()).await {
                Some(permit) => (permit?, opening),
                None => {
                    // Another client may have a permit: this one is not held in the wait.
                    drop(opening);
                    match self.wait(key, permit, connecting).await? {
                        Waiting::Ended(lease) => return Ok(lease),
                        Waiting::Opens(permit) => (permit, None),
                    }
                }
            }
        };
        if key.protocol == Protocol::FastCgi
            && let Found::Unused(connection) = self.found(key, connecting)
        {
            return Ok(Lease::new(worker, key, connection, Some(permit)));
        }
        let connection = self.connect_anew(key, tls, chosen, connecting).await?;
        let permit = match &connection {
            Opened::FastCgi(_) => Some(permit),
            Opened::Http1(_) => {
                if key.protocol == Protocol::Negotiated {
                    worker.pools.chose_http1(key);
                }
                Some(permit)
            }
            Opened::Http2(shared) => {
                let _ = shared.streams.permit.set(permit);
                worker.pools.share(key, shared.clone());
                None
            }
        };
        Ok(Lease::new(worker, key, connection, permit))
    }

    /// Opens a connection to an endpoint that is judged first. A socket that was judged just
    /// before may have been replaced: if nobody listens there, its path is opened again.
    async fn connect_anew(
        &self,
        key: &Key,
        tls: Option<&TlsClient>,
        chosen: &Chosen,
        connecting: &mut Connecting,
    ) -> Result<Opened, Failure> {
        let (worker, until) = (self.worker, connecting.until);
        let now = clock::monotonic();
        let known = worker.judged.find(key, now);
        let is_known = known.is_some();
        let mut socket = match known {
            Some(known) => Some(known),
            None => self.judge(key, until, now).await?,
        };
        let descriptor = Arc::new(self.descriptor(chosen.tenant, until).await?);
        let mut is_again = false;
        loop {
            let target = Target {
                endpoint: &key.endpoint,
                socket: socket.as_deref(),
                header: self.proxy_header(),
                tls,
                descriptor: Some(Arc::clone(&descriptor)),
                protocol: key.protocol,
            };
            let opened = self.begin(&target, connecting).await;
            match &opened {
                Err(failure) if failure.lacks_descriptor() && !is_again => {
                    worker.pools.close_unused(|_| true);
                    worker.upstreams.descriptors.ask_workers();
                    // The tasks of the connections close them.
                    yield_now().await;
                }
                Err(Failure::Connect(_)) if is_known && !is_again => {
                    worker.judged.forget(key);
                    socket = self.judge(key, until, now).await?;
                }
                _ => return opened.map_err(Failure::sorted),
            }
            is_again = true;
        }
    }

    /// Judges an endpoint. Keeps the verdict on the socket of a FastCGI server, which gets
    /// many connections.
    async fn judge(
        &self,
        key: &Key,
        until: Instant,
        now: Instant,
    ) -> Result<Option<Arc<OpenSocket>>, Failure> {
        let judged = self.caller(key.owner).judge(&key.endpoint, until).await?;
        let socket = judged.map(Arc::new);
        if let (Some(socket), Protocol::FastCgi) = (&socket, key.protocol) {
            self.worker.judged.keep(key, socket, now);
        }
        Ok(socket)
    }

    /// Waits for a descriptor. Unused connections make room.
    async fn descriptor(&self, tenant: u64, until: Instant) -> Result<Descriptor, Own> {
        let (pools, descriptors) = (&self.worker.pools, &self.worker.upstreams.descriptors);
        if let Some(descriptor) = descriptors.take(tenant) {
            return Ok(descriptor);
        }
        let is_sated = descriptors.sated();
        pools.close_unused(|owner| owner == tenant || is_sated(owner));
        descriptors.enter(tenant, until).await
    }

    /// Begins to open a connection, with a permit of the worker.
    async fn begin(
        &self,
        target: &Target<'_>,
        connecting: &mut Connecting,
    ) -> Result<Opened, Failure> {
        let (prefix, until) = (self.context.client.into(), connecting.until);
        let opened = async {
            let begun = Instant::now();
            let share = connect::share(begun, until, connecting.others);
            let opened = connect::open(target, share).await;
            connecting.at_server += begun.elapsed();
            opened
        };
        let openings = &self.worker.openings;
        openings.begin(prefix, until, opened).await
    }

    /// Waits for a permit, or for a connection that comes free, or about, meanwhile.
    async fn wait(
        &self,
        key: &Key,
        mut permit: Pin<&mut impl Future<Output = Result<Permit, Failure>>>,
        connecting: &Connecting,
    ) -> Result<Waiting, Failure> {
        let worker = self.worker;
        let room = key.protocol.may_share().then(|| worker.pools.room(key));
        loop {
            let came = async {
                match &room {
                    Some(room) => room.notified().await,
                    None => pending().await,
                }
            };
            let came = tokio::select! {
                biased;
                permit = &mut permit => Some(permit?),
                () = came => None,
            };
            let (connection, permit) = match (self.found(key, connecting), came) {
                (Found::Unused(connection @ Opened::Http2(_)), _) => (connection, None),
                (Found::Unused(connection), Some(permit)) => (connection, Some(permit)),
                (Found::Unused(connection), None) => (connection, Some(permit.await?)),
                (Found::Missing(_), Some(permit)) => return Ok(Waiting::Opens(permit)),
                (Found::Missing(_), None) => continue,
            };
            let lease = Lease::new(worker, key, connection, permit);
            return Ok(Waiting::Ended(lease));
        }
    }

    /// Returns the version of the own addresses that a new connection is judged by. Those
    /// that were judged by an older one are not used again.
    fn allowed_by(&self) -> Option<u64> {
        let guard = &self.worker.upstreams.guard;
        self.upstream
            .is_bound
            .then(|| guard.own_addresses_version())
    }

    fn caller(&self, owner: Owner) -> Caller<'_> {
        Caller {
            upstreams: &self.worker.upstreams,
            upstream: self.upstream,
            host: self.context.host,
            tenant: self.context.tenant,
            owner,
            prefix: self.context.connection.prefix,
        }
    }

    /// Returns the header of the PROXY protocol, if the site asks for one.
    fn proxy_header(&self) -> Vec<u8> {
        let connection = self.context.connection;
        let version = self.upstream.options().proxy_protocol;
        version.map_or_else(Vec::new, |version| {
            encode(version, connection.peer, connection.server)
        })
    }
}

/// End of a wait for a permit.
enum Waiting {
    /// A connection can be used.
    Ended(Lease),
    /// A connection may be opened.
    Opens(Permit),
}

/// Resolves the name of a server.
async fn resolved(chosen: &Chosen, until: Instant) -> Result<Vec<Endpoint>, Failure> {
    let resolved = timeout_at(until, chosen.endpoints()).await;
    Ok(resolved.map_err(|_| Own::Late(Waited::Name))??)
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
