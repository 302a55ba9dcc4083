//! Routes requests: finds the host of a request, and checks that this
//! connection may ask for it.

mod hooked;
mod negotiated;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Request, Response, StatusCode};
use sekisho_certs::{HostName, NameError, Outcome, Served, clock};

use crate::access_log::{Connection, Entry};
use crate::ask::ask;
use crate::authority;
use crate::body::Body;
use crate::budget::Prefix;
use crate::challenge;
use crate::client::{self, Client};
use crate::files::OpenFiles;
use crate::handshake::Established;
use crate::hook::Hooked;
use crate::metrics::{LookupResult, Metrics};
use crate::peer::Peer;
use crate::respond::Responder;
use crate::shared::Shared;
use crate::timeouts::ConnTimeouts;
use crate::tls::Stream;
use crate::upstream::Tunnel;
use crate::virtual_host::VirtualHost;
use crate::worker::Local;
pub(crate) use negotiated::Negotiated;

/// Context of a connection for its requests.
pub(crate) struct ConnContext {
    /// The record of the handshake: its certificate, tenant and TLS policy hold
    /// for the connection.
    sent: Arc<Served<VirtualHost>>,
    /// The server name, if the client sent one.
    name: Option<HostName>,
    /// Choices of the hook, if there is one; `known` is empty then.
    hooked: Option<Box<Hooked>>,
    /// Lookup results of names that requests asked for, at most [`MAX_KNOWN`].
    known: Mutex<Vec<Known>>,
    timeouts: Arc<ConnTimeouts>,
    files: OpenFiles,
    /// The address of the client; from the PROXY protocol's header if there is one.
    peer: SocketAddr,
    /// Whether `peer` is the client or a proxy that names it; see [`Peer`].
    is_known: bool,
    /// The address that the client connected to.
    server: SocketAddr,
    prefix: Prefix,
    tls: Negotiated,
    /// Number of the connection in this process, never 0.
    number: u64,
    /// Upstream connection that takes over after the answer; HTTP/1.1 only.
    tunnel: Mutex<Option<Box<Tunnel>>>,
    local: Arc<Local>,
}

struct Known {
    name: HostName,
    served: Arc<Served<VirtualHost>>,
    /// The lookup's revision before `name` was looked up.
    revision: u64,
    /// How the handshake looked `name` up; taken by the first request.
    lookup: Option<LookupResult>,
}

/// The host that answers a request.
pub(crate) struct Target {
    pub(crate) served: Arc<Served<VirtualHost>>,
    /// Name of the request; None for the connection's own name.
    other: Option<HostName>,
    /// How the host was looked up; None if the connection knew it.
    pub(crate) lookup: Option<LookupResult>,
}

impl Target {
    pub(crate) fn name<'a>(&'a self, context: &'a ConnContext) -> &'a HostName {
        let own = context.name.as_ref();
        self.other
            .as_ref()
            .or(own)
            .expect("a target without a name of its own has the connection's")
    }
}

/// Refusal of a request that no host answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) text: &'static str,
    /// Whether the connection ends after the refusal.
    pub(crate) ends: bool,
    /// How the host was looked up, if it was.
    pub(crate) lookup: Option<LookupResult>,
}

impl ConnContext {
    pub(crate) fn new(established: Established, peer: Peer, local: Arc<Local>) -> (Stream, Self) {
        let Established {
            stream,
            timeouts,
            served,
            name,
            named,
            revision,
            lookup,
            hooked,
        } = established;
        let known = (named && hooked.is_none()).then(|| Known {
            name: name.clone(),
            served: Arc::clone(&served),
            revision,
            lookup: Some(lookup),
        });
        let Peer {
            address,
            is_known,
            listen,
        } = peer;
        // A listener with an address and a port of its own saves the system call.
        let is_open = listen.ip().is_unspecified() || listen.port() == 0;
        let server = is_open.then(|| stream.local_address()).flatten();
        let context = Self {
            sent: served,
            name: named.then_some(name),
            hooked,
            known: Mutex::new(known.into_iter().collect()),
            timeouts,
            files: OpenFiles::default(),
            prefix: address.ip().into(),
            peer: address,
            is_known,
            server: server.unwrap_or(listen),
            tls: stream.tls().into(),
            number: local.shared.connection_number(),
            tunnel: Mutex::default(),
            local,
        };
        (stream, context)
    }

    pub(crate) fn timeouts(&self) -> &Arc<ConnTimeouts> {
        &self.timeouts
    }

    /// Returns the address of the client.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the client prefix that lookups are charged to.
    pub(crate) fn prefix(&self) -> Prefix {
        self.prefix
    }

    /// Returns the address that the client connected to.
    pub(crate) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Returns what the TLS handshake negotiated.
    pub(crate) fn tls(&self) -> &Negotiated {
        &self.tls
    }

    /// Returns the state of the worker that serves the connection.
    pub(crate) fn local(&self) -> &Arc<Local> {
        &self.local
    }

    /// Returns the name by which a host of this connection was looked up: its own, or that
    /// which the hook chose. None if the hook made the host.
    pub(crate) fn looked_up(&self, host: &HostName) -> Option<HostName> {
        match &self.hooked {
            Some(hooked) => hooked.kept(host)?.host,
            None => Some(host.clone()),
        }
    }

    /// Returns the number of the connection in this process, never 0.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Leaves HTTP/1.1 after the answer that is being made.
    pub(crate) fn upgrade(&self, tunnel: Tunnel) {
        *self.tunnel() = Some(Box::new(tunnel));
    }

    /// Takes the upstream connection that continues the connection, if its last
    /// answer has left HTTP.
    pub(crate) fn take_tunnel(&self) -> Option<Box<Tunnel>> {
        self.tunnel().take()
    }

    fn tunnel(&self) -> MutexGuard<'_, Option<Box<Tunnel>>> {
        self.tunnel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> &Shared {
        &self.local.shared
    }

    /// Returns the open-file permits of this connection.
    pub(crate) fn files(&self) -> &OpenFiles {
        &self.files
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.shared().metrics
    }

    pub(crate) fn responder(&self) -> &Responder {
        &self.shared().responder
    }

    /// Returns whether the peer's `X-Forwarded-For`, `X-Forwarded-Proto`,
    /// `X-Forwarded-Host`, `Forwarded` and `X-Request-Id` are believed.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_known && self.shared().trusted.contain(self.peer.ip())
    }

    /// Returns the client of a request with these fields.
    pub(crate) fn client(&self, fields: &HeaderMap) -> Client {
        if self.is_known {
            return client::of(self.peer.ip(), fields, &self.shared().trusted);
        }
        Client {
            address: self.peer.ip(),
            is_known: false,
        }
    }

    /// Begins the access log's entry of a request; none without an access log.
    pub(crate) fn entry<B>(&self, request: &Request<B>, client: IpAddr) -> Option<Box<Entry>> {
        let log = self.shared().access_log.as_ref()?;
        let connection = Connection {
            tls: self.tls.version,
            resumed: self.tls.resumed,
            trusted: self.is_trusted(),
        };
        Some(Entry::begin(log, request, client, connection))
    }

    /// Answers a challenge, if the request asks for that: before any host is looked
    /// up.
    pub(crate) fn challenge<B>(
        &self,
        request: &Request<B>,
    ) -> Option<impl Future<Output = Option<Response<Body>>>> {
        challenge::respond(request, self.shared(), self.prefix)
    }

    /// Finds the host that answers a request:
    ///
    /// 1. the host of the request line and of the Host field, which agree;
    /// 2. the connection's earlier result for that name, while the lookup's
    ///    revision is the same and the record is fresh;
    /// 3. a name other than the connection's: only if the certificate that was
    ///    sent covers it;
    /// 4. a lookup by [`ask`], whose load is charged to the client's prefix;
    /// 5. the record that was found: only with the same tenant and TLS policy.
    ///
    /// # Errors
    /// 400 without a valid host, 421 for a host that this connection must not
    /// reach (RFC 9110, section 15.5.20), 503 if the lookup failed.
    pub(crate) async fn route<B>(&self, request: &Request<B>) -> Result<Target, Refused> {
        let host = authority::of(request).ok_or(BAD_HOST)?;
        if let Some(hooked) = &self.hooked {
            // Boxed: no request without a hook has room for it.
            return Box::pin(self.route_hooked(hooked, host)).await;
        }
        if let Some(target) = self.known(host) {
            return Ok(target);
        }
        let name = name_of(host)?;
        let own = self.name.as_ref() == Some(&name);
        if !own && !self.covers(&name) {
            return Err(MISDIRECTED);
        }
        let gone = if own { GONE } else { MISDIRECTED };
        let Shared {
            lookup,
            budget,
            metrics,
            ..
        } = self.shared();
        let revision = lookup.revision();
        // The lookup has the time of a whole handshake, or of one that waits for
        // a certificate.
        let mut deadline = clock::monotonic() + self.shared().limits.handshake;
        let prefix = self.prefix;
        let asked = ask(lookup, budget, metrics, &name, prefix, &mut deadline, None);
        let (outcome, how) = asked.await;
        let refused = |refusal| Refused {
            lookup: Some(how),
            ..refusal
        };
        let served = match outcome {
            Outcome::Found(served) => served,
            Outcome::Absent(_) => return Err(refused(gone)),
            Outcome::Failed(error) => {
                self.shared().log_limits.failed(&name, &error);
                return Err(refused(UNKNOWN));
            }
        };
        let (sent, found) = (&self.sent.host().record, &served.host().record);
        if (&sent.tenant, &sent.tls) != (&found.tenant, &found.tls) {
            return Err(refused(gone));
        }
        self.note(&name, &served, revision);
        Ok(Target {
            served,
            other: (!own).then_some(name),
            lookup: Some(how),
        })
    }

    fn known(&self, host: &str) -> Option<Target> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known
            .iter_mut()
            .find(|known| known.name.as_str().eq_ignore_ascii_case(host))?;
        let lookup = &self.shared().lookup;
        let current = lookup.is_current(&known.served, known.revision);
        current.then(|| Target {
            served: Arc::clone(&known.served),
            other: (self.name.as_ref() != Some(&known.name)).then(|| known.name.clone()),
            lookup: known.lookup.take(),
        })
    }

    fn note(&self, name: &HostName, served: &Arc<Served<VirtualHost>>, revision: u64) {
        let new = Known {
            name: name.clone(),
            served: Arc::clone(served),
            revision,
            lookup: None,
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.iter_mut().find(|known| known.name == *name) {
            Some(old) => *old = new,
            None => {
                known.truncate(MAX_KNOWN - 1);
                known.push(new);
            }
        }
    }

    /// Returns whether the certificate that was sent covers `name`. All
    /// credentials must: which one was sent is not known.
    fn covers(&self, name: &HostName) -> bool {
        let credentials = &self.sent.host().credentials;
        !credentials.is_empty() && credentials.iter().all(|credential| credential.covers(name))
    }
}

/// Parses the host of a request.
fn name_of(host: &str) -> Result<HostName, Refused> {
    HostName::parse(host).map_err(|error| match error {
        // No certificate here can cover an IP address.
        NameError::Address => MISDIRECTED,
        _ => BAD_HOST,
    })
}

pub(crate) const BAD_HOST: Refused = Refused {
    status: StatusCode::BAD_REQUEST,
    text: "The request must name one host, the same in its URL and its Host field.\n",
    ends: false,
    lookup: None,
};
const MISDIRECTED: Refused = Refused {
    status: StatusCode::MISDIRECTED_REQUEST,
    text: "This host is not served on this connection.\n",
    ends: false,
    lookup: None,
};
const GONE: Refused = Refused {
    status: StatusCode::MISDIRECTED_REQUEST,
    text: "This host is no longer served on this connection.\n",
    ends: true,
    lookup: None,
};
const UNKNOWN: Refused = Refused {
    status: StatusCode::SERVICE_UNAVAILABLE,
    text: "The lookup of this host failed. Try again later.\n",
    ends: false,
    lookup: None,
};

/// Names that one connection remembers; few pages use more.
const MAX_KNOWN: usize = 8;
