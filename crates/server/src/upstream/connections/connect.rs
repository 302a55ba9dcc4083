//! Opens connections to upstream servers.

use std::future::{Future as _, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, timeout_at};

use super::bounded::Bound;
use super::descriptors::Descriptor;
use super::fastcgi::FastCgi;
use super::informational::Informational;
use super::pool::{Http1, MAX_STREAMS, Opened, Shared, Streams};
use super::tls::TlsClient;
use super::transport::{Endpoint, Transport};
use super::wakes::Wakes;
use crate::site::{OpenSocket, Protocol};
use crate::upstream::failure::Failure;

/// Server to connect to.
pub(in crate::upstream) struct Target<'a> {
    pub(in crate::upstream) endpoint: &'a Endpoint,
    /// Socket that was judged, wherever the endpoint's path leads by now.
    pub(in crate::upstream) socket: Option<&'a OpenSocket>,
    /// Header of the PROXY protocol; empty for none.
    pub(in crate::upstream) header: Vec<u8>,
    pub(in crate::upstream) tls: Option<&'a TlsClient>,
    /// Permit of the socket; none for an active check.
    pub(in crate::upstream) descriptor: Option<Arc<Descriptor>>,
    /// Protocol that the server must speak.
    pub(in crate::upstream) protocol: Protocol,
}

/// Connects and begins HTTP or FastCGI, until `until`.
///
/// # Errors
/// [`Failure::Connect`] and [`Failure::ConnectLate`] before the server accepts,
/// [`Failure::Begin`] and [`Failure::BeginLate`] after that.
pub(in crate::upstream) async fn open(
    target: &Target<'_>,
    until: Instant,
) -> Result<Opened, Failure> {
    let transport = match timeout_at(until, connect(target)).await {
        Ok(transport) => transport.map_err(Failure::Connect)?,
        Err(_) => return Err(Failure::ConnectLate),
    };
    match timeout_at(until, begin(target, transport)).await {
        Ok(opened) => opened.map_err(Failure::Begin),
        Err(_) => Err(Failure::BeginLate),
    }
}

/// Returns when to give up an address that is tried from now on: it shares the time until
/// `until` with the `others` that are left, of which at most [`MOST_SHARES`] count.
pub(in crate::upstream) fn share(now: Instant, until: Instant, others: usize) -> Instant {
    let shares = u32::try_from(others + 1).unwrap_or(MOST_SHARES);
    now + until.saturating_duration_since(now) / shares.min(MOST_SHARES)
}

async fn connect(target: &Target<'_>) -> io::Result<Transport> {
    let transport = match (target.endpoint, target.socket) {
        (Endpoint::Tcp(address), _) => Transport::tcp(*address).await,
        (Endpoint::Unix(_), Some(socket)) => Transport::unix(socket.path()),
        (Endpoint::Unix(path), None) => Transport::unix(path),
    };
    Ok(transport?.with(target.descriptor.clone()))
}

async fn begin(target: &Target<'_>, mut transport: Transport) -> io::Result<Opened> {
    transport.write_all(&target.header).await?;
    if target.protocol == Protocol::FastCgi {
        return Ok(Opened::FastCgi(Box::new(FastCgi::new(transport))));
    }
    let mut http2 = target.protocol == Protocol::Http2;
    if let Some(tls) = target.tls {
        transport = transport
            .secure(Arc::clone(&tls.config), tls.name.clone())
            .await?;
        if http2 && !transport.chose_http2() {
            return Err(io::Error::other("the server does not speak HTTP/2"));
        }
        http2 = transport.chose_http2();
    }
    let begun = match http2 {
        true => begin_http2(transport).await.map(Opened::Http2),
        false => begin_http1(transport)
            .await
            .map(|connection| Opened::Http1(Box::new(connection))),
    };
    begun.map_err(io::Error::other)
}

async fn begin_http1(transport: Transport) -> hyper::Result<Http1> {
    let informational = Arc::new(Informational::default());
    let transport = transport.bounded(Bound::Http1(Arc::clone(&informational)));
    let (sender, connection) = http1::Builder::new()
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD)
        // Most requests are a head alone.
        .writev(false)
        .handshake(TokioIo::new(transport))
        .await?;
    let wakes = Arc::new(Wakes::default());
    let driven = Arc::clone(&wakes).drive(connection.with_upgrades());
    let task = tokio::spawn(async move {
        if let Err(error) = driven.await {
            tracing::debug!(%error, "upstream connection failed");
        }
    });
    Ok(Http1::new(
        sender,
        informational,
        wakes,
        task.abort_handle(),
    ))
}

async fn begin_http2(transport: Transport) -> hyper::Result<Shared> {
    let streams = Arc::new(Streams::new());
    let transport = transport.bounded(Bound::http2(Arc::clone(&streams)));
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(u32::try_from(MAX_HEAD).expect("64 KiB"))
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .handshake(TokioIo::new(transport))
        .await?;
    let counted = Arc::clone(&streams);
    tokio::spawn(async move {
        let mut connection = pin!(connection);
        let ended = poll_fn(|cx| {
            // hyper reads the socket in another task.
            counted.reader.register(cx.waker());
            let polled = connection.as_mut().poll(cx);
            if polled.is_pending() {
                counted.allow(connection.current_max_send_streams());
            }
            polled
        });
        if let Err(error) = ended.await {
            tracing::debug!(%error, "upstream connection failed");
        }
    });
    Ok(Shared {
        sender,
        streams,
        reused: false,
    })
}

/// Addresses that share the time to connect: the first has a quarter of it at least.
const MOST_SHARES: u32 = 4;

/// Bytes of an answer's head, and of its trailers.
const MAX_HEAD: usize = 64 << 10;

/// Bytes that a server may send unread on a stream.
const STREAM_WINDOW: u32 = 64 << 10;
/// Bytes that a server may send unread on a connection: those of all its streams.
/// Clients that read slowly would otherwise stall those of other hosts, 6.25 MiB at
/// most.
const CONNECTION_WINDOW: u32 = MAX_STREAMS as u32 * STREAM_WINDOW;
/// Bytes of a stream that wait for the server.
const SEND_BUFFER: usize = 64 << 10;

/// A server that vanished without a FIN is noticed after both, 40 s.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
