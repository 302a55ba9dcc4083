//! State that all workers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::HeaderValue;
use sekisho_certs::{Clock, Lookup};

use crate::access_log::AccessLog;
use crate::bodies::Bodies;
use crate::budget::Budget;
use crate::challenge::Answers;
use crate::hook::Hook;
use crate::log_limiter::LogLimits;
use crate::metrics::Metrics;
use crate::network::Networks;
use crate::overload::Overload;
use crate::rates::Rates;
use crate::respond::Responder;
use crate::settings::{Defaults, Limits};
use crate::upstream::{Descriptors, Servers, SocketTurns, TlsClients};
use crate::virtual_host::VirtualHost;

/// State that all workers share. No lock of it is held across an await.
pub(crate) struct Shared {
    pub(crate) lookup: Arc<Lookup<VirtualHost>>,
    pub(crate) budget: Arc<Budget>,
    /// Hook that chooses before the lookup; none by default.
    pub(crate) hook: Option<Arc<dyn Hook>>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) responder: Arc<Responder>,
    /// Answers to challenges; none without issuance.
    pub(crate) answers: Option<Answers>,
    pub(crate) defaults: Defaults,
    /// `[listen] proxy`: peers that speak the PROXY protocol.
    pub(crate) proxies: Networks,
    /// `[listen] trusted`: peers whose `X-Forwarded-For`, `X-Forwarded-Proto`,
    /// `X-Forwarded-Host`, `Forwarded` and `X-Request-Id` are believed.
    pub(crate) trusted: Networks,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    /// `[log] access`; none by default.
    pub(crate) access_log: Option<Arc<AccessLog>>,
    pub(crate) log_limits: LogLimits,
    /// State of upstream servers.
    pub(crate) upstream_servers: Servers,
    /// Bound on connections to upstream servers.
    pub(crate) descriptors: Arc<Descriptors>,
    /// Counts of requests that the rates of sites bound.
    pub(crate) rates: Rates,
    /// Bytes of bodies that connections of HTTP/2 hold.
    pub(crate) bodies: Arc<Bodies>,
    /// Count of the requests in flight; none without `[server] requests`.
    pub(crate) overload: Option<Arc<Overload>>,
    /// Value in `CDN-Loop` that stands for this catalog's servers.
    pub(crate) loop_id: HeaderValue,
    /// Turns to open Unix sockets of upstream servers.
    pub(crate) socket_turns: SocketTurns,
    /// TLS towards upstream servers.
    pub(crate) upstream_tls: TlsClients,
    /// Number of the last connection.
    pub(crate) connections: Alone<AtomicU64>,
    /// Port of HTTPS in redirects from plain HTTP.
    pub(crate) https_port: u16,
    /// Hook that each worker calls first, on its own runtime. A store with
    /// connections of each worker registers the worker there.
    pub(crate) on_worker: fn(),
}

impl Shared {
    /// Returns a number for a new connection, never 0. Relaxed: only uniqueness
    /// counts.
    pub(crate) fn connection_number(&self) -> u64 {
        let Alone(last) = &self.connections;
        last.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Value on cache lines of its own: each request reads what would lie beside it, and
/// would wait where another worker writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Alone<T>(pub(crate) T);
