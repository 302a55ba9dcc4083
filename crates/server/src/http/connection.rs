//! Stages of a connection behind its handshake.
//!
//! # The life of a connection
//!
//! System calls of a connection of HTTP/1.1 over TLS 1.3 that gets one answer, and what it holds:
//!
//! | step | system calls | memory and timers | file |
//! | --- | --- | --- | --- |
//! | accept | `accept4`, `epoll_ctl` | a task, and a future of the handshake; deadline `handshake_timeout` | worker.rs, handshake.rs |
//! | ClientHello | `recv` into a buffer of the worker | | hello.rs |
//! | server's flight | `writev` | rustls's connection; the future of the handshake ends | tls/wire.rs |
//! | Finished and the request | `recv` | hyper with two buffers of 8 KiB; one timer, first after 20 ms, when tickets wait no longer for an answer | http/connection.rs, http/drive.rs |
//! | tickets and the answer | `send` | the request's future, in memory that the request before has freed | http.rs |
//! | the answer was the last | `shutdown`, `epoll_ctl`, `close` | the end leaves in one segment with an answer that is whole in memory | tls/wire.rs |
//! | a check of its timer finds it idle for 100 ms; checks are 100 ms apart at first, on a busy connection up to 5 s | none | parked: hyper and its buffers are dropped | http/connection.rs |
//! | parked for 2 s | `madvise` | the page of rustls's read buffer is given back; 6.4 KiB are left. HTTP/2: at the check, since it is not parked | tls/release.rs |
//! | next request | `recv`, `send` | hyper is made anew, 1 µs | http/connection.rs |
//!
//! A kept request is one `recv` and one `send`. Three clocks: `clock::monotonic()` is for the
//! limits and ages that each request notes, and reads the clock once within a poll of a
//! connection. Rarer steps read `Instant::now()`. `Clock` is the wall clock, which tests move.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep_until, timeout};

use super::context::{ConnContext, Local};
use super::drive::{Driven, drive};
use super::sending::Sending;
use super::streams::Streams;
use super::{http2_builder, served};
use crate::connection::handshake::Established;
use crate::connection::peer::Peer;
use crate::connection::request::Takeover;
use crate::connection::stage::Stage;
use crate::http::route::Routes;
use crate::limits::timeouts::LINGER;
use crate::tls::frames::Frames;
use crate::tls::{Corked, Stream};

/// Serves requests until the client closes, a limit is reached or the server drains.
pub(crate) fn serve(established: Established, peer: Peer, local: &Arc<Local>) -> Stage {
    let Established { stream, looked } = established;
    let protocol = stream.tls().and_then(|tls| tls.alpn_protocol());
    let h2 = protocol == Some(b"h2");
    stream.timeouts().established(h2);
    let name = looked.name.clone();
    let routes = Routes::new(looked, Arc::clone(&local.service.routing));
    let context = ConnContext::new(&stream, name, routes, peer, Arc::clone(local));
    let context = Arc::new(context);
    if h2 {
        multiplexed(stream, context)
    } else {
        active(stream, context)
    }
}

/// Serves requests of HTTP/1.1 over plain HTTP. The limit of a head runs since the connection
/// was accepted: without a handshake, a client that sends nothing has shown nothing.
pub(crate) fn serve_plain(stream: Stream, peer: Peer, local: &Arc<Local>) -> Stage {
    stream.timeouts().established(false);
    stream.timeouts().read();
    let routes = Routes::plain(Arc::clone(&local.service.routing));
    let context = ConnContext::new(&stream, None, routes, peer, Arc::clone(local));
    active(stream, Arc::new(context))
}

/// Serves requests of HTTP/1.1, until the connection ends or is idle for a while.
fn active(stream: Stream, context: Arc<ConnContext>) -> Stage {
    let answering = Arc::clone(&context);
    let service = service_fn(move |request| {
        // Boxed, in place: hyper keeps room for the future, 2.5 KB, which would leave the
        // processor's cache before the connection's next request. Memory that another
        // connection has just freed is still there.
        Box::into_pin(Box::write(Box::new_uninit(), served(&answering, request)))
    });
    let mut connection = context.local.http1.serve_connection(stream, service);
    Stage::new(async move {
        let end = http1::Connection::graceful_shutdown;
        let park = |_: Pin<&mut _>| ControlFlow::Break(());
        match drive(Pin::new(&mut connection), end, park, &context).await {
            Driven::Ended(Ok(())) => {
                let takeover = context.connection.takeover()?;
                let parts = connection.into_parts();
                Some(tunnelling(takeover, parts.io, parts.read_buf, context))
            }
            Driven::Ended(Err(error)) => failed(&error, &context),
            Driven::Cut => None,
            Driven::Idle => Some(parked(connection.into_parts(), context)),
        }
    })
}

/// Waits for the next request of HTTP/1.1 without hyper, whose two buffers of 8 KiB are
/// dropped. Only the stream is kept, and rustls's read buffer, after [`RELEASE_DELAY`]
/// without its page.
///
/// The future holds nothing twice: it is most of what the server itself adds to an idle
/// connection.
fn parked<S>(parts: http1::Parts<Stream, S>, context: Arc<ConnContext>) -> Stage {
    let mut stream = parts.io;
    stream.put_back(parts.read_buf);
    let counted = context.metrics().parked();
    Stage::new(async move {
        let due = context.due().map(|(at, _)| at);
        let awake = {
            let releases = Instant::now() + RELEASE_DELAY;
            let mut timer = pin!(sleep_until(due.map_or(releases, |due| due.min(releases))));
            let mut draining = pin!(context.local.drain.begun());
            let awake = poll_fn(|cx| {
                if stream.poll_readable(cx).is_ready() {
                    return Poll::Ready(true);
                }
                while timer.as_mut().poll(cx).is_ready() {
                    if due.is_some_and(|due| due <= timer.deadline()) {
                        return Poll::Ready(false);
                    }
                    stream.release_buffer();
                    let Some(due) = due else { break };
                    timer.as_mut().reset(due);
                }
                // A client that has sent no request yet gets its first one answered.
                let unasked = || !context.timeouts().has_begun();
                draining.as_mut().poll(cx).map(|_| unasked())
            });
            awake.await
        };
        drop(counted);
        Some(match awake {
            true => active(stream, context),
            false => Stage::last(async move { close(&mut stream, &context).await }),
        })
    })
}

/// Closes a connection without a request in flight.
async fn close(stream: &mut Stream, context: &ConnContext) {
    context.timeouts().close();
    // The close_notify gets [`LINGER`] to be taken, not longer.
    let _ = timeout(LINGER, poll_fn(|cx| stream.poll_close(cx))).await;
}

/// Copies bytes of a connection that has left HTTP, and closes it.
fn tunnelling(
    takeover: Takeover,
    mut stream: Stream,
    received: Bytes,
    context: Arc<ConnContext>,
) -> Stage {
    stream.leave_http();
    // The connection counts as in use meanwhile.
    context.timeouts().begin();
    Stage::last(async move {
        let mut client = takeover(TokioIo::new(stream), received).await;
        context.timeouts().end();
        close(client.inner_mut(), &context).await;
    })
}

/// Serves HTTP/2. While no stream is open, rustls's read buffer has no page.
fn multiplexed(mut stream: Stream, context: Arc<ConnContext>) -> Stage {
    let body = context.limits().body;
    let held = &context.local.service.bodies;
    let held = held.holder(context.connection.prefix);
    context.timeouts().hold(Arc::clone(&held));
    stream.watch(Frames::new(STUCK_FACTOR * body, held));
    let streams = Streams::new(context.timeouts(), body);
    let stream = Corked::new(stream);
    let answering = Arc::clone(&context);
    // Boxed: hyper and Tokio move a stream's future ten times.
    let service = service_fn(move |request| Box::pin(served(&answering, request)));
    let connection = http2_builder(streams).serve_connection(stream.clone(), service);
    let mut connection = Sending::new(connection, stream);
    Stage::new(async move {
        let end = |mut sending: Pin<&mut Sending<_>>| {
            http2::Connection::graceful_shutdown(sending.connection());
        };
        // h2 has no interface to drop its own buffers.
        let release = |sending: Pin<&mut Sending<_>>| {
            sending.release_buffer();
            if let Some(held) = context.timeouts().held() {
                held.settle();
            }
            ControlFlow::Continue(())
        };
        match drive(Pin::new(&mut connection), end, release, &context).await {
            Driven::Ended(Err(error)) => failed(&error, &context),
            Driven::Ended(Ok(())) | Driven::Cut | Driven::Idle => None,
        }
    })
}

fn failed(error: &hyper::Error, context: &ConnContext) -> Option<Stage> {
    tracing::debug!(%error, peer = %context.connection.peer, "connection failed");
    None
}

/// Idle time after which the page of the read buffer is given back. The system call makes
/// all processors that run the server forget addresses: not for each pause of a client.
const RELEASE_DELAY: Duration = Duration::from_secs(2);

/// Multiple of the body limit after which a stuck answer ends its connection.
/// [`Streams`] resets the streams that it can at one limit.
const STUCK_FACTOR: u32 = 3;
