//! A worker: one thread with its own runtime and listening sockets, which
//! serves connections and nothing else.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sekisho_certs::metrics::InGauge;
use sekisho_gate::Gate;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::cgi::STARTS_AT_ONCE;
use crate::coding;
use crate::connection::accept::accept;
use crate::connection::connections::{Activity, Connections, Unnamed};
use crate::connection::handshake::{Handshakes, establish};
use crate::connection::peer::Peer;
use crate::connection::proxy_protocol;
use crate::connection::stage::Stage;
use crate::files::READS_IN_FLIGHT;
use crate::http::respond::password_threads;
use crate::http::{self, Service, serve, serve_plain};
use crate::limits::budget::Prefix;
use crate::limits::network::Networks;
use crate::limits::settings::Limits;
use crate::observe::metrics::Metrics;
use crate::run::shutdown::{Phase, Shutdown};
use crate::tls::{Stream, signing};
use crate::upstream::{self, Upstreams};

/// Parts that a worker starts with.
pub(crate) struct Worker {
    pub(crate) common: Arc<Common>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) working: Working,
    /// Counts the seconds in which the worker turned. Relaxed: it orders nothing else.
    pub(crate) turns: Arc<AtomicU64>,
}

/// Parts that all workers share. No lock of them is held across an await.
pub(crate) struct Common {
    pub(crate) handshakes: Handshakes,
    pub(crate) service: Arc<Service>,
    pub(crate) upstreams: Arc<Upstreams>,
    /// `[listen] proxy`: peers that speak the PROXY protocol.
    pub(crate) proxies: Networks,
    pub(crate) limits: Limits,
    pub(crate) metrics: Arc<Metrics>,
    /// Hook that each worker calls first, on its own runtime. A store with
    /// connections of each worker registers the worker there.
    pub(crate) on_worker: fn(),
}

/// Registration of a worker that has not drained yet. Dropping the registration ends the
/// other workers' wait for this one.
pub(crate) struct Working {
    /// Closed once no worker has its receiver any more.
    all: watch::Sender<()>,
    own: Option<watch::Receiver<()>>,
}

/// A listening socket of one worker.
pub(crate) struct Socket {
    pub(crate) socket: TcpListener,
    pub(crate) configured: SocketAddr,
    pub(crate) tls: bool,
}

/// State that belongs to a worker; its connections share it.
struct Local {
    common: Arc<Common>,
    signing: Gate<Prefix>,
    http: Arc<http::Local>,
}

impl Working {
    /// Registers `count` workers.
    pub(crate) fn all(count: usize) -> impl Iterator<Item = Self> {
        let all = watch::Sender::new(());
        std::iter::repeat_n(all, count).map(|all| Self {
            own: Some(all.subscribe()),
            all,
        })
    }

    /// Ends this worker's registration, and waits for the others'.
    async fn all_end(&mut self) {
        self.own = None;
        self.all.closed().await;
    }
}

impl Worker {
    /// Makes the runtime that [`Self::run`] must run on.
    pub(crate) fn runtime() -> io::Result<Runtime> {
        Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS + password_threads() + coding::threads())
            .build()
    }

    /// Accepts and serves until another process does or the drain begins, then lets open
    /// connections end, from the start of the drain within its limit. Those that are still
    /// open then end with the runtime; returns how many, with the tunnels that the drain has ended. The runtime outlives the other
    /// workers' connections: they may use store connections that it drives.
    pub(crate) async fn run(self, shutdown: Shutdown) -> io::Result<usize> {
        let upstreams = Arc::clone(&self.common.upstreams);
        let local = Arc::new(Local {
            signing: signing::gate(),
            http: Arc::new(http::Local {
                service: Arc::clone(&self.common.service),
                http1: http::http1_builder(),
                drain: Arc::default(),
                upstreams: upstream::Worker::new(upstreams, self.common.limits.workers),
            }),
            common: self.common,
        });
        (local.common.on_worker)();
        tokio::spawn(heartbeat(Arc::clone(&local), self.turns));
        let mut accepting = JoinSet::new();
        for socket in self.sockets {
            let listener = tokio::net::TcpListener::from_std(socket.socket)?;
            let connections = Arc::clone(&self.connections);
            let entrance = Arc::clone(&self.connections);
            let (listen, tls) = (socket.configured, socket.tls);
            let local = Arc::clone(&local);
            accepting.spawn(accept(
                listener,
                connections,
                move |socket, address, permit| {
                    let peer = Peer {
                        address,
                        is_known: true,
                        listen,
                    };
                    local.begin(socket, peer, tls, &entrance, permit);
                },
            ));
        }
        shutdown.reached(Phase::Leaving).await;
        accepting.shutdown().await;
        let (connections, mut working) = (self.connections, self.working);
        local.http.drain.leave();
        let left = async {
            connections.all_closed().await;
            working.all_end().await;
        };
        tokio::select! {
            biased;
            () = shutdown.reached(Phase::Draining) => {}
            () = left => return Ok(0),
        }
        local.http.drain.begin();
        let end = Instant::now() + local.common.limits.drain;
        let drained = async {
            let _ = timeout_at(end, connections.all_closed()).await;
            let open = connections.open();
            // A worker that hangs delays the others until then, not longer.
            let _ = timeout_at(end + DRAIN_SLACK, working.all_end()).await;
            open
        };
        let open = tokio::select! {
            open = drained => open,
            () = shutdown.reached(Phase::Ending) => connections.open(),
        };
        Ok(open + local.http.drain.tunnels())
    }
}

impl Local {
    /// Returns the first stage of a connection whose first bytes are awaited since
    /// `begun`.
    fn serve(
        self: &Arc<Self>,
        socket: TcpStream,
        peer: Peer,
        tls: bool,
        begun: Instant,
        activity: Activity,
    ) -> Stage {
        if !tls {
            let stream = Stream::clear(socket);
            activity.read_from(stream.timeouts());
            return serve_plain(stream, peer, &self.http);
        }
        let local = Arc::clone(self);
        Stage::new(async move {
            let (handshakes, signing) = (&local.common.handshakes, &local.signing);
            let established = establish(socket, peer, begun, handshakes, signing).await?;
            activity.read_from(established.stream.timeouts());
            Some(serve(established, peer, &local.http))
        })
    }

    /// Serves a connection in a task of its own. A peer in `[listen] proxy`
    /// speaks the PROXY protocol.
    fn begin(
        self: &Arc<Self>,
        socket: TcpStream,
        peer: Peer,
        tls: bool,
        connections: &Arc<Connections>,
        permit: OwnedSemaphorePermit,
    ) {
        let open = self.common.metrics.connection_opened();
        let address = peer.address.ip();
        if self.common.proxies.contain(address) {
            let unnamed = connections.enter_unnamed(permit);
            let local = Arc::clone(self);
            tokio::spawn(local.serve_proxied(socket, peer, tls, unnamed, open));
            return;
        }
        let begun = Instant::now();
        let Some(entered) = connections.enter(address.into(), permit, begun) else {
            return;
        };
        let stage = self.serve(socket, peer, tls, begun, entered.activity());
        tokio::spawn(entered.hold(stage, open));
    }

    /// Serves a connection that begins with a header of the PROXY protocol. The
    /// header and what follows, a handshake or the head of a request, have one
    /// deadline; at the limit of connections the header has a shorter one. Over plain
    /// HTTP, the head of a request has its own.
    async fn serve_proxied(
        self: Arc<Self>,
        socket: TcpStream,
        peer: Peer,
        tls: bool,
        unnamed: Unnamed,
        open: InGauge,
    ) {
        let begun = Instant::now();
        let Common {
            limits, metrics, ..
        } = &*self.common;
        let deadline = begun + if tls { limits.handshake } else { limits.head };
        let extra = unnamed.deadline(begun);
        let deadline = extra.map_or(deadline, |extra| extra.min(deadline));
        let admitted = Box::pin(proxy_protocol::admit(socket, peer, deadline, metrics));
        let admitted = match extra {
            // Also ends the wait for the client's end, once its header is refused.
            Some(extra) => timeout_at(extra, admitted).await.ok().flatten(),
            None => admitted.await,
        };
        let Some((socket, peer)) = admitted else {
            return;
        };
        let Some(entered) = unnamed.enter(peer.address.ip().into()) else {
            return;
        };
        let stage = self.serve(socket, peer, tls, begun, entered.activity());
        entered.hold(stage, open).await;
    }
}

/// Keeps a timer that is always the next to fire. A new timer that is due
/// before all others makes Tokio write to the worker's eventfd: one system call
/// per handshake. Closes upstream connections that were unused for long, or whose
/// descriptors others need. Counts its `turns`.
async fn heartbeat(local: Arc<Local>, turns: Arc<AtomicU64>) {
    let (descriptors, pools) = (
        &local.common.upstreams.descriptors,
        &local.http.upstreams.pools,
    );
    let mut missing = descriptors.missing();
    let mut sweep = Instant::now() + HEARTBEAT;
    loop {
        let asked = timeout_at(sweep, missing.changed()).await;
        if sweep <= Instant::now() {
            local.http.upstreams.sweep();
            turns.fetch_add(1, Ordering::Relaxed);
            sweep = Instant::now() + HEARTBEAT;
        }
        if asked.is_err() {
            continue;
        }
        pools.close_unused(descriptors.sated());
        // Requests that come meanwhile share the next round.
        sleep(ROUND).await;
    }
}

/// Pause between rounds in which unused upstream connections are closed.
const ROUND: Duration = Duration::from_millis(10);

/// Interval of the heartbeat: shorter than the timeouts that a handshake sets.
/// One wake-up per second costs nothing measurable.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How long a worker waits after its drain limit for workers that drain late.
const DRAIN_SLACK: Duration = Duration::from_secs(1);

/// Blocking threads of a worker: one per file read in flight, since a read that
/// hangs keeps its thread, those that start programs, and 8 for other blocking calls.
/// Hashes of passwords and what is compressed take others.
const BLOCKING_THREADS: usize = READS_IN_FLIGHT + STARTS_AT_ONCE + 8;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn workers_end_together_however_each_ends() {
        let mut working: Vec<_> = Working::all(3).collect();
        let (third, second, first) = (working.pop(), working.pop(), working.pop());
        let (mut first, mut third) = (first.unwrap(), third.unwrap());
        let mut end = pin!(first.all_end());
        assert!(end.as_mut().now_or_never().is_none());
        // A panic drops the worker's registration like this.
        drop(second);
        assert!(end.as_mut().now_or_never().is_none());
        third.all_end().await;
        end.await;
    }
}
