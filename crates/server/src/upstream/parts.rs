//! Parts that passing a request on takes.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::time::Instant;

use super::connections::descriptors::Descriptors;
use super::connections::judged::Judged;
use super::connections::opening::Openings;
use super::connections::pool::Pools;
use super::connections::sockets::Sockets;
use super::connections::tls::TlsClients;
use super::request::whole::Collecting;
use super::servers::Servers;
use crate::cgi::Programs;
use crate::lookup::ask::Hosts;
use crate::site::Guard;

/// What the process knows of upstream servers.
pub(crate) struct Upstreams {
    pub(crate) servers: Servers,
    /// Bound on connections to them.
    pub(crate) descriptors: Descriptors,
    /// Permits to open their Unix sockets.
    pub(crate) sockets: Sockets,
    pub(crate) tls: TlsClients,
    /// CGI programs that run.
    pub(crate) programs: Programs,
    /// Request bodies that are collected first.
    pub(crate) collecting: Collecting,
    /// Value in `CDN-Loop` that stands for this catalog's servers.
    pub(crate) loop_id: HeaderValue,
    pub(crate) guard: Arc<Guard>,
    pub(crate) hosts: Arc<Hosts>,
    /// Time between two looks at the host of an exchange that goes on.
    pub(crate) host_look: Duration,
}

/// Connections of one worker to upstream servers.
pub(crate) struct Worker {
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) pools: Pools,
    /// Unix sockets that were judged just before.
    pub(super) judged: Judged,
    /// Permits to open connections.
    pub(super) openings: Openings,
}

impl Worker {
    /// Closes what was unused for long.
    pub(crate) fn sweep(&self) {
        self.pools.sweep();
        self.judged.sweep(Instant::now());
    }

    /// Makes the connections of one of so many workers.
    pub(crate) fn new(upstreams: Arc<Upstreams>, workers: usize) -> Arc<Self> {
        Arc::new(Self {
            upstreams,
            pools: Pools::new(workers),
            judged: Judged::default(),
            openings: Openings::new(),
        })
    }
}
