//! A thread with a runtime and sockets of its own, which does connections and
//! nothing else.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use crate::accept::accept;
use crate::connections::Connections;
use crate::files::READS_IN_FLIGHT;
use crate::handshake::{Peer, establish};
use crate::http::{Drain, Http, redirect};
use crate::shared::Shared;
use crate::shutdown::{Phase, Shutdown};
use crate::signing::SigningTurns;

/// What a worker starts with.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) working: Working,
}

/// A worker that has not drained yet; dropping it ends the wait for it.
pub(crate) struct Working(watch::Sender<usize>);

/// A listening socket of one worker.
pub(crate) struct Socket {
    pub(crate) socket: TcpListener,
    pub(crate) configured: SocketAddr,
    pub(crate) tls: bool,
}

/// What the connections of a worker share.
struct Local {
    shared: Arc<Shared>,
    signing: SigningTurns,
    http: Http,
    drain: Drain,
    open: AtomicUsize,
    closed: Notify,
}

/// An open connection, counted until its task ends or is dropped.
struct Open(Arc<Local>);

impl Working {
    /// For so many workers.
    pub(crate) fn all(count: usize) -> impl Iterator<Item = Self> {
        let working = watch::Sender::new(count);
        std::iter::repeat_n(working, count).map(Self)
    }

    /// Peer the work of this one and waits for the others', which have until
    /// then to drain.
    async fn ends(self, until: Instant) {
        let mut working = self.0.subscribe();
        drop(self);
        // A worker that hangs holds up no other.
        let _ = timeout_at(until, working.wait_for(|working| *working == 0)).await;
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.send_modify(|working| *working -= 1);
    }
}

impl Worker {
    /// The runtime that [`Self::run`] is to be run on.
    pub(crate) fn runtime() -> io::Result<Runtime> {
        Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
    }

    /// Accepts and serves until `shutdown` says otherwise, then lets open
    /// connections end within the drain limit. Connections that are still
    /// open then end with the runtime. That waits for the other workers, which
    /// may be using connections to the store that it drives.
    pub(crate) async fn run(self, shutdown: Shutdown) -> io::Result<()> {
        let local = Arc::new(Local {
            shared: self.shared,
            signing: SigningTurns::new(),
            http: Http::new(),
            drain: Drain::default(),
            open: AtomicUsize::new(0),
            closed: Notify::new(),
        });
        (local.shared.on_worker)();
        tokio::spawn(heartbeat());
        let mut accepting = JoinSet::new();
        for socket in self.sockets {
            let listener = tokio::net::TcpListener::from_std(socket.socket)?;
            let connections = Arc::clone(&self.connections);
            let (listen, tls) = (socket.configured, socket.tls);
            let local = Arc::clone(&local);
            accepting.spawn(accept(
                listener,
                connections,
                move |socket, address, place| {
                    let open = Open::new(&local);
                    let peer = Peer { address, listen };
                    tokio::spawn(place.hold(async move {
                        open.0.serve(socket, peer, tls).await;
                    }));
                },
            ));
        }
        shutdown.reached(Phase::Draining).await;
        accepting.shutdown().await;
        local.drain.begin();
        let end = Instant::now() + local.shared.limits.drain;
        let drained = async {
            let _ = timeout_at(end, local.all_closed()).await;
            self.working.ends(end + DRAIN_SLACK).await;
        };
        tokio::select! {
            () = drained => {}
            () = shutdown.reached(Phase::Ending) => {}
        }
        Ok(())
    }
}

impl Local {
    async fn serve(&self, socket: TcpStream, peer: Peer, tls: bool) {
        // Each phase is boxed, and in a statement of its own: what one held
        // is free in the next, and no room is kept for it.
        if !tls {
            let redirected = Box::pin(redirect(socket, &self.shared));
            return redirected.await;
        }
        let handshake = Box::pin(establish(socket, peer, &self.shared, &self.signing));
        if let Some(established) = handshake.await {
            let (shared, drain) = (&self.shared, &self.drain);
            let served = Box::pin(self.http.serve(established, peer, shared, drain));
            served.await;
        }
    }

    /// Resolves when no connection is open.
    async fn all_closed(&self) {
        loop {
            // Made before the count is read: no end falls in between.
            let closed = self.closed.notified();
            if self.open.load(Ordering::Acquire) == 0 {
                return;
            }
            closed.await;
        }
    }
}

impl Open {
    fn new(local: &Arc<Local>) -> Self {
        local.open.fetch_add(1, Ordering::AcqRel);
        local.shared.metrics.connection_opened();
        Self(Arc::clone(local))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.shared.metrics.connection_closed();
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.closed.notify_waiters();
        }
    }
}

/// A timer that begins earlier than all others makes Tokio write to the
/// worker's own eventfd, a system call for each handshake. With one that is
/// always about to fire, none does.
async fn heartbeat() {
    loop {
        sleep(HEARTBEAT).await;
    }
}

/// Shorter than the time-outs that a handshake sets; one wake-up per second
/// costs nothing.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// How much later than it may another worker has drained.
const DRAIN_SLACK: Duration = Duration::from_secs(1);

/// Threads of a worker for reads of files: one for each turn, since a read
/// that hangs keeps its own, and a few for what else blocks.
const BLOCKING_THREADS: usize = READS_IN_FLIGHT + 8;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn late() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[tokio::test]
    async fn workers_end_together_however_each_ends() {
        let mut working: Vec<_> = Working::all(3).collect();
        let (third, second, first) = (working.pop(), working.pop(), working.pop());
        let mut end = pin!(first.unwrap().ends(late()));
        assert!(end.as_mut().now_or_never().is_none());
        // A worker that panics is dropped like this.
        drop(second);
        assert!(end.as_mut().now_or_never().is_none());
        third.unwrap().ends(late()).await;
        end.await;
    }
}
