//! Copies bytes both ways between a client and an upstream that left HTTP.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::still_served::StillServed;
use crate::connection::drain::Drain;
use crate::connection::request::{Connection, Takeover};
use crate::limits::bodies::InTunnel;
use crate::limits::in_flight::RequestPermit;
use crate::limits::timeouts::{AtUpstream, ConnTimeouts};
use crate::observe::access_log::Handover;
use crate::upstream::connections::transport::Transport;
use crate::upstream::permits::Permit;
use crate::upstream::servers::chosen::Chosen;

/// Upstream connection that has left HTTP.
pub(in crate::upstream) struct Tunnel {
    pub(in crate::upstream) upstream: Transport,
    /// Bytes that came after the upstream's answer.
    pub(in crate::upstream) received: Bytes,
    /// Access log's entry of the request, whose line the tunnel's end writes; none without
    /// one.
    pub(in crate::upstream) entry: Option<Handover>,
    pub(in crate::upstream) request: Leaving,
}

/// Parts of a request that leaves HTTP.
pub(in crate::upstream) struct Leaving {
    /// Longest time without a byte.
    pub(in crate::upstream) idle: Duration,
    pub(in crate::upstream) at_upstream: AtUpstream,
    /// Count of the bytes that wait; none over HTTP/1.1. Made before the head of the answer
    /// is sent.
    pub(in crate::upstream) held: Option<InTunnel>,
    /// Host of the request; none if the hook made it.
    pub(in crate::upstream) host: Option<StillServed>,
    /// Use of the server, and the permit of the request, until the tunnel ends.
    pub(in crate::upstream) _used: (Chosen, Option<Permit>, Option<Arc<RequestPermit>>),
}

impl Tunnel {
    /// Copies bytes both ways until both sides have ended, one fails, nothing
    /// has moved for the idle limit, the host is served otherwise or no more, or the
    /// server drains. `received` are bytes that the client sent ahead.
    async fn run<C>(self, client: &mut C, received: Bytes, drain: &Drain)
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let (mut up, mut down) = (Copy::new(received), Copy::new(self.received));
        let Leaving {
            idle,
            at_upstream,
            mut held,
            host,
            _used,
        } = self.request;
        // Dropped before the permit: nobody connects while it is open.
        let mut upstream = self.upstream;
        let mut idle = Idle::new(idle);
        let copied = poll_fn(|cx| {
            let (before, taken) = (up.moved + down.moved, up.moved);
            let up_ended = up.poll(cx, client, &mut upstream)?;
            at_upstream.taken(up.moved - taken);
            let down_ended = down.poll(cx, &mut upstream, client)?;
            at_upstream.wait(down.waits());
            if let Some(held) = &mut held {
                held.set(up.rest.len() + down.rest.len() + down.untaken());
            }
            if up_ended.is_ready() && down_ended.is_ready() {
                return Poll::Ready(Ok(()));
            }
            if up.moved + down.moved > before {
                idle.moved = Instant::now();
            }
            if up.state != State::Open || down.state != State::Open {
                idle.shorten(HALF_CLOSED);
            }
            idle.poll(cx).map(Err)
        });
        // Boxed: it looks once a minute.
        let over = Box::pin(async {
            match host {
                Some(host) => host.ended().await,
                None => pending().await,
            }
        });
        let ended = tokio::select! {
            biased;
            ended = copied => Some(ended),
            () = drain.begun() => {
                drain.ended_tunnel();
                None
            }
            why = over => {
                tracing::debug!(why, "upgraded connection ended");
                None
            }
        };
        if let Some(entry) = &self.entry {
            entry.ended(up.moved, down.moved, matches!(ended, Some(Ok(()))));
        }
        if let Some(Err(error)) = ended {
            tracing::debug!(%error, "upgraded connection ended");
        }
    }
}

/// Continues a connection of HTTP/1.1 with a tunnel.
pub(in crate::upstream) fn over_http1(tunnel: Tunnel, connection: &Connection) -> Takeover {
    let drain = Arc::clone(&connection.drain);
    Box::new(move |mut client, received| {
        Box::pin(async move {
            tunnel.run(&mut client, received, &drain).await;
            client
        })
    })
}

/// Runs a tunnel over a stream of HTTP/2, in a task of its own. The connection
/// counts as in use meanwhile.
pub(in crate::upstream) fn over_http2(
    upgraded: OnUpgrade,
    tunnel: Tunnel,
    connection: &Connection,
) {
    let in_flight = InFlight::new(&connection.timeouts);
    let drain = Arc::clone(&connection.drain);
    tokio::spawn(async move {
        let _in_flight = in_flight;
        // Fails if the client reset the stream.
        if let Ok(upgraded) = upgraded.await {
            let mut client = TokioIo::new(upgraded);
            tunnel.run(&mut client, Bytes::new(), &drain).await;
        }
    });
}

/// Use of a connection beyond the end of an answer.
struct InFlight(Arc<ConnTimeouts>);

impl InFlight {
    fn new(timeouts: &Arc<ConnTimeouts>) -> Self {
        timeouts.begin();
        Self(Arc::clone(timeouts))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Copying in one direction. Holds bytes only while the receiver takes none.
struct Copy {
    rest: Bytes,
    /// Bytes that the receiver took.
    moved: u64,
    /// Bytes may wait in the receiver's buffers.
    unflushed: bool,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The sender has ended.
    Ended,
    /// The receiver knows.
    Closed,
}

impl Copy {
    fn new(rest: Bytes) -> Self {
        Self {
            rest,
            moved: 0,
            unflushed: false,
            state: State::Open,
        }
    }

    /// Returns whether the sender has sent nothing that the receiver lacks.
    fn waits(&self) -> bool {
        self.state == State::Open && self.rest.is_empty() && !self.unflushed
    }

    /// Returns the most bytes that a receiver of HTTP/2 has in front of it, which takes
    /// none; 0 while it does.
    fn untaken(&self) -> usize {
        match self.waits() || self.state == State::Closed {
            true => 0,
            false => IN_FRONT,
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        loop {
            while !self.rest.is_empty() {
                let written = ready!(Pin::new(&mut *writer).poll_write(cx, &self.rest))?;
                if written == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.rest.advance(written);
                self.moved += written as u64;
                self.unflushed = true;
            }
            match self.state {
                State::Closed => return Poll::Ready(Ok(())),
                State::Ended => {
                    ready!(Pin::new(&mut *writer).poll_shutdown(cx))?;
                    self.state = State::Closed;
                }
                State::Open => match self.read(cx, reader, writer) {
                    Poll::Ready(read) => read?,
                    Poll::Pending => {
                        if self.unflushed {
                            ready!(Pin::new(&mut *writer).poll_flush(cx))?;
                            self.unflushed = false;
                        }
                        return Poll::Pending;
                    }
                },
            }
        }
    }

    /// Reads once, and writes what the receiver takes at once.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        BUFFER.with_borrow_mut(|buffer| {
            let mut buf = ReadBuf::new(buffer);
            ready!(Pin::new(reader).poll_read(cx, &mut buf))?;
            let bytes = buf.filled();
            if bytes.is_empty() {
                self.state = State::Ended;
                return Poll::Ready(Ok(()));
            }
            let written = match Pin::new(writer).poll_write(cx, bytes) {
                Poll::Ready(written) => written?,
                Poll::Pending => 0,
            };
            self.moved += written as u64;
            self.unflushed = true;
            if written < bytes.len() {
                self.rest = Bytes::copy_from_slice(&bytes[written..]);
            }
            Poll::Ready(Ok(()))
        })
    }
}

/// Timer of the idle limit. Set anew only when it fires.
struct Idle {
    limit: Duration,
    moved: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Idle {
    fn new(limit: Duration) -> Self {
        let moved = Instant::now();
        Self {
            limit,
            moved,
            timer: Box::pin(sleep_until(moved + limit)),
        }
    }

    /// Lowers the limit.
    fn shorten(&mut self, limit: Duration) {
        if limit < self.limit {
            self.limit = limit;
            self.timer.as_mut().reset(self.moved + limit);
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.timer.as_mut().poll(cx));
            let due = self.moved + self.limit;
            if due <= Instant::now() {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(due);
        }
    }
}

thread_local! {
    /// Read buffer of all tunnels of a worker: it holds bytes only within
    /// [`Copy::read`].
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_SIZE].into());
}

/// Longest time without a byte once one side has ended: it has left, or still
/// reads.
const HALF_CLOSED: Duration = Duration::from_secs(10);

const BUFFER_SIZE: usize = 16 << 10;

/// Bytes in front of a receiver of HTTP/2: two pieces in hyper's channel, one that it has
/// taken and that waits for a window, and one in h2. Three may be there while the channel
/// takes another one: they do not count.
const IN_FRONT: usize = 4 * BUFFER_SIZE;
