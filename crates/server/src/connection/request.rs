//! A request as all steps that answer it see it: who asks, for which host, over which
//! connection.

pub(crate) mod framing;
mod negotiated;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::StatusCode;
use hyper_util::rt::TokioIo;
use sekisho_certs::store::BoxFuture;
use sekisho_certs::{HostName, HostPattern, Served, Tenant, lock};

use crate::connection::client::Client;
use crate::connection::drain::Drain;
use crate::files::{OpenFiles, Opener};
use crate::limits::budget::Prefix;
use crate::limits::timeouts::ConnTimeouts;
use crate::lookup::virtual_host::VirtualHost;
use crate::observe::access_log::Entry;
use crate::observe::metrics::{LookupResult, Metrics};
use crate::site::Fill;
use crate::tls::Stream;
pub(crate) use negotiated::Negotiated;

/// Facts of a connection, and what its requests share.
pub(crate) struct Connection {
    /// Number of the connection in this process, never 0.
    pub(crate) number: u64,
    /// The server name, if the client sent one.
    pub(crate) name: Option<HostName>,
    /// The address of the client; from the PROXY protocol's header if there is one.
    pub(crate) peer: SocketAddr,
    /// Whether `peer` is the client or a proxy that names it; see
    /// [`Peer`](crate::connection::peer::Peer).
    pub(crate) is_known: bool,
    /// Whether the peer's `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`,
    /// `Forwarded` and `X-Request-Id` are believed.
    pub(crate) is_trusted: bool,
    /// The address that the client connected to.
    pub(crate) server: SocketAddr,
    /// Client prefix that lookups are charged to.
    pub(crate) prefix: Prefix,
    /// What the TLS handshake negotiated.
    pub(crate) tls: Negotiated,
    /// Port of HTTPS, for redirects of a connection over plain HTTP; none over TLS.
    pub(crate) https_port: Option<u16>,
    pub(crate) timeouts: Arc<ConnTimeouts>,
    /// Permits of open files.
    pub(crate) files: OpenFiles,
    /// The drain of the worker that serves the connection.
    pub(crate) drain: Arc<Drain>,
    pub(crate) takeover: Mutex<Option<Takeover>>,
}

/// What continues a connection after the answer that leaves HTTP/1.1. It gets the stream
/// and the bytes that came ahead, and gives the stream back.
pub(crate) type Takeover =
    Box<dyn FnOnce(TokioIo<Stream>, Bytes) -> BoxFuture<'static, TokioIo<Stream>> + Send>;

impl Connection {
    /// Returns whether requests come over plain HTTP.
    pub(crate) fn is_plain(&self) -> bool {
        self.https_port.is_some()
    }

    /// Leaves HTTP/1.1 after the answer that is being made.
    pub(crate) fn take_over(&self, takeover: Takeover) {
        *lock(&self.takeover) = Some(takeover);
    }

    /// Takes what continues the connection, if its last answer has left HTTP.
    pub(crate) fn takeover(&self) -> Option<Takeover> {
        lock(&self.takeover).take()
    }
}

/// The host that answers a request.
pub(crate) struct Target {
    pub(crate) served: Arc<Served<VirtualHost>>,
    /// Name of the request; None for the connection's own name.
    pub(crate) other: Option<HostName>,
    /// How the host was looked up; None if the connection knew it.
    pub(crate) lookup: Option<LookupResult>,
    /// Name that the host which was asked for was looked up by.
    pub(crate) name_of_lookup: NameOfLookup,
    /// The other host, if its site answers in the place of the request's own.
    pub(crate) alias: Option<Alias>,
}

/// Host whose site answers in another's place, by the key `as` of the other's site.
pub(crate) struct Alias {
    pub(crate) name: HostName,
    /// The host that was asked for.
    pub(crate) asked: Arc<Served<VirtualHost>>,
}

/// Name that a host was looked up by.
#[derive(Clone, Debug)]
pub(crate) enum NameOfLookup {
    /// That of the request.
    Asked,
    /// That which the hook chose.
    Chosen(HostName),
    /// None: the hook made the host.
    None,
}

impl Target {
    pub(crate) fn name<'a>(&'a self, connection: &'a Connection) -> &'a HostName {
        let own = connection.name.as_ref();
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

impl Refused {
    /// Makes the refusal of a request that looked up no host. The connection goes on.
    pub(crate) const fn new(status: StatusCode, text: &'static str) -> Self {
        Self {
            status,
            text,
            ends: false,
            lookup: None,
        }
    }

    /// Makes the connection end after the refusal.
    pub(crate) const fn ending(mut self) -> Self {
        self.ends = true;
        self
    }
}

/// Facts of a routed request, for all steps that answer it.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    /// Host that the request asks for.
    pub(crate) host: &'a HostName,
    /// Host whose site answers: its name stands for `{host}` in folders, sockets and servers.
    pub(crate) site_host: &'a HostName,
    /// Tenant of both hosts.
    pub(crate) tenant: &'a Tenant,
    /// Pattern of the host record whose site answers: its host, or the wildcard above it.
    pub(crate) pattern: &'a HostPattern,
    /// The host whose site answers, as it was found.
    pub(crate) served: &'a Arc<Served<VirtualHost>>,
    /// Name that `host` was looked up by.
    pub(crate) name_of_lookup: &'a NameOfLookup,
    /// The host whose site answers, if that is not `host`: `pattern`, `served` and `tenant` are
    /// those of the host whose site answers.
    pub(crate) alias: Option<&'a Alias>,
    pub(crate) connection: &'a Connection,
    /// Address of the client, for rates, logs and fields.
    pub(crate) client: IpAddr,
    /// Whether that is the client's own address, and not that of a proxy that hides it.
    pub(crate) is_client_known: bool,
    /// Entry of the access log; none without one.
    pub(crate) entry: Option<&'a Entry>,
    pub(crate) metrics: &'a Metrics,
}

impl<'a> RequestContext<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        target: &'a Target,
        client: Client,
        entry: Option<&'a Entry>,
        metrics: &'a Metrics,
    ) -> Self {
        let record = &target.served.host().record;
        let host = target.name(connection);
        Self {
            host,
            site_host: target.alias.as_ref().map_or(host, |alias| &alias.name),
            tenant: &record.tenant,
            pattern: &record.pattern,
            served: &target.served,
            name_of_lookup: &target.name_of_lookup,
            alias: target.alias.as_ref(),
            connection,
            client: client.address,
            is_client_known: client.is_known,
            entry,
            metrics,
        }
    }

    /// Returns what fills placeholders in values of fields.
    pub(crate) fn fill(&self) -> Fill<'a> {
        Fill {
            host: self.host.as_str(),
            client: self.is_client_known.then_some(self.client),
            tenant: self.tenant.as_str(),
            id: self.entry.map(Entry::id),
        }
    }

    /// Returns the scheme of the request's URL, as upstreams are told.
    pub(crate) fn scheme(&self) -> &'static str {
        let is_plain = self.connection.is_plain();
        if is_plain { "http" } else { "https" }
    }

    /// Returns the client that files are opened for.
    pub(crate) fn opener(&self) -> Opener<'a> {
        Opener {
            connection: &self.connection.files,
            prefix: self.client.into(),
        }
    }
}
