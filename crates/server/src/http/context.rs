//! Context of a connection for its requests.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use http::{HeaderMap, Request};
use hyper::server::conn::http1;
use sekisho_certs::HostName;
use tokio::time::Instant;

use crate::connection::client::{self, Client};
use crate::connection::drain::Drain;
use crate::connection::peer::Peer;
use crate::connection::request::{Connection, Negotiated};
use crate::files::OpenFiles;
use crate::http::respond::Responder;
use crate::http::route::{Routes, Routing};
use crate::http::turn::Turn;
use crate::limits::bodies::Bodies;
use crate::limits::network::Networks;
use crate::limits::settings::Limits;
use crate::limits::timeouts::{ConnTimeouts, Due};
use crate::lookup::challenge::Answers;
use crate::observe::access_log::{self, AccessLog, Entry};
use crate::observe::metrics::Metrics;
use crate::tls::Stream;
use crate::upstream;

/// Parts that answer requests, the same for all workers.
pub(crate) struct Service {
    pub(crate) routing: Arc<Routing>,
    pub(crate) responder: Arc<Responder>,
    /// Answers to challenges; none without issuance.
    pub(crate) answers: Option<Arc<Answers>>,
    /// `[listen] trusted`: peers whose `X-Forwarded-For`, `X-Forwarded-Proto`,
    /// `X-Forwarded-Host`, `Forwarded` and `X-Request-Id` are believed.
    pub(crate) trusted: Networks,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    /// `[log] access`; none by default.
    pub(crate) access_log: Option<Arc<AccessLog>>,
    /// Bytes of bodies that connections of HTTP/2 hold.
    pub(crate) bodies: Arc<Bodies>,
    /// Port of HTTPS in redirects from plain HTTP.
    pub(crate) https_port: u16,
    /// `[listen] plain`: hosts may be served over plain HTTP.
    pub(crate) plain: bool,
    pub(crate) numbers: Numbers,
}

/// Parts that answer the requests of one worker's connections.
pub(crate) struct Local {
    pub(crate) service: Arc<Service>,
    pub(crate) http1: http1::Builder,
    pub(crate) drain: Arc<Drain>,
    pub(crate) upstreams: Arc<upstream::Worker>,
}

/// Number of the last connection, on cache lines of its own: each request reads what
/// would lie beside it, and would wait where another worker writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    /// Returns a number for a new connection, never 0. Relaxed: only uniqueness counts.
    fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Connection, the hosts that it may reach, and what answers its requests.
pub(super) struct ConnContext {
    pub(super) connection: Connection,
    pub(super) routes: Routes,
    pub(super) turn: Turn,
    pub(super) local: Arc<Local>,
}

impl ConnContext {
    /// Makes the context of a connection. `name` is the server name, if the client sent one.
    pub(super) fn new(
        stream: &Stream,
        name: Option<HostName>,
        routes: Routes,
        peer: Peer,
        local: Arc<Local>,
    ) -> Self {
        let (address, is_known) = (peer.address, peer.is_known);
        let service = &local.service;
        Self {
            connection: Connection {
                number: service.numbers.next(),
                name,
                peer: address,
                is_known,
                is_trusted: is_known && service.trusted.contain(address.ip()),
                server: peer.server(|| stream.local_address()),
                prefix: address.ip().into(),
                tls: stream.tls().map(Negotiated::from).unwrap_or_default(),
                https_port: stream.tls().is_none().then_some(service.https_port),
                timeouts: Arc::clone(stream.timeouts()),
                files: OpenFiles::default(),
                drain: Arc::clone(&local.drain),
                takeover: Mutex::default(),
            },
            routes,
            turn: Turn::default(),
            local,
        }
    }

    pub(super) fn timeouts(&self) -> &Arc<ConnTimeouts> {
        &self.connection.timeouts
    }

    /// Returns the limits of `[server]`.
    pub(super) fn limits(&self) -> &Limits {
        &self.local.service.limits
    }

    /// Returns when the connection's current state reaches its limit.
    pub(super) fn due(&self) -> Option<(Instant, Due)> {
        self.timeouts().due(self.limits())
    }

    /// Returns whether requests of the connection are redirected to HTTPS, whatever their host.
    pub(super) fn redirects_all(&self) -> bool {
        self.connection.is_plain() && !self.local.service.plain
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.local.service.metrics
    }

    /// Returns the client of a request with these fields.
    pub(super) fn client(&self, fields: &HeaderMap) -> Client {
        let peer = Client {
            address: self.connection.peer.ip(),
            is_known: self.connection.is_known,
        };
        client::of(peer, fields, &self.local.service.trusted)
    }

    /// Begins the access log's entry of a request; none without an access log.
    pub(super) fn entry<B>(&self, request: &Request<B>, client: IpAddr) -> Option<Box<Entry>> {
        let log = self.local.service.access_log.as_ref()?;
        let connection = access_log::Connection {
            tls: self.connection.tls.version,
            resumed: self.connection.tls.resumed,
            trusted: self.connection.is_trusted,
        };
        Some(Entry::begin(log, request, client, connection))
    }
}
