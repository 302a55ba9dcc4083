//! The client: connections are kept and bounded, an answer has a bound, and only
//! the roots that it was given are believed. Redirects are not followed. The
//! caller bounds the time.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use zeroize::Zeroizing;

use crate::describe::describe;

/// Sends at most `REQUESTS` at a time. All of it runs on the runtime that
/// polls it.
#[derive(Debug)]
pub struct HttpsClient {
    pool: Client<Connector, Full<Bytes>>,
    requests: Arc<Semaphore>,
}

impl HttpsClient {
    /// Speaks HTTP/2 where it is offered, else HTTP/1.1; `http://` too. The
    /// configuration names no protocols (ALPN).
    #[must_use]
    pub fn new(tls: ClientConfig, timeouts: Timeouts) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // A request is one small write, and somebody waits for the answer.
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(timeouts.connect));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(timeouts.ping));
        tcp.set_keepalive_retries(Some(2));
        let https = HttpsConnectorBuilder::new().with_tls_config(tls);
        let https = https.https_or_http().enable_all_versions();
        let mut connector = Connector::new(https.wrap_connector(tcp));
        connector.set_connect_timeout(Some(timeouts.connect));
        Self {
            pool: pool(connector, timeouts),
            requests: Arc::new(Semaphore::new(REQUESTS)),
        }
    }

    /// Waits for a permit to send a request, first come first served.
    pub async fn permit(&self) -> OwnedSemaphorePermit {
        let permit = Arc::clone(&self.requests).acquire_owned().await;
        permit.expect("it is never closed")
    }

    /// Sends a request; once more if a kept connection failed under it. The
    /// caller holds a permit until it has read the answer.
    ///
    /// # Errors
    /// Says why there is no answer.
    pub async fn send(&self, request: &Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let mut answer = self.pool.request(request.clone()).await;
        // The server may just have closed a connection that was kept (RFC 9110,
        // section 9.2.2).
        if request.method().is_idempotent()
            && answer.as_ref().is_err_and(|error| !error.is_connect())
        {
            answer = self.pool.request(request.clone()).await;
        }
        answer.map_err(|error| match (error.is_connect(), error.source()) {
            (true, Some(cause)) => format!("no connection: {}", describe(cause)),
            _ => describe(&error),
        })
    }
}

/// How long a connection may keep a request waiting.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// For TCP and TLS together, to all addresses of the name.
    pub connect: Duration,
    /// Interval and timeout of pings while requests are under way over HTTP/2: an
    /// endpoint that is gone without a word is noticed within twice this time.
    pub ping: Duration,
}

impl Timeouts {
    /// For a service in the same network, while a client of ours waits:
    /// connecting ends before the two seconds of a store call do.
    pub const NEAR: Self = Self {
        connect: Duration::from_millis(1500),
        ping: Duration::from_secs(1),
    };
    /// For a service on another continent.
    pub const FAR: Self = Self {
        connect: Duration::from_secs(10),
        ping: Duration::from_secs(10),
    };
}

fn pool(connector: Connector, timeouts: Timeouts) -> Client<Connector, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(REQUESTS)
        .http1_max_buf_size(BUFFER)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(WINDOW * 4)
        .http2_max_header_list_size(HEADERS)
        .http2_keep_alive_interval(timeouts.ping)
        .http2_keep_alive_timeout(timeouts.ping)
        .build(connector)
}

/// Bounds TCP and TLS together: the pool may go on connecting when the request
/// that asked for it has found another connection.
type Connector = TimeoutConnector<HttpsConnector<HttpConnector>>;

/// Why a body is of no use.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyError {
    /// The connection broke off; says how.
    BrokeOff(String),
    /// The body has more bytes than the bound.
    TooLarge,
    /// HTTP/1.1 without `Content-Length` and without chunks: a body that was cut
    /// off can't be told from a whole one.
    Endless,
}

/// Reads a body of at most `most` bytes into memory that is wiped and that never
/// grows: growing would leave copies of a key behind. The buffers of the
/// connection itself are not wiped.
///
/// # Errors
/// [`BodyError`].
pub async fn body(
    response: Response<Incoming>,
    most: usize,
) -> Result<Zeroizing<Vec<u8>>, BodyError> {
    let size = response.body().size_hint().exact();
    let has_end = response.version() == Version::HTTP_2
        || size.is_some()
        || response.headers().contains_key(TRANSFER_ENCODING);
    if !has_end {
        return Err(BodyError::Endless);
    }
    let room = size.map_or(most, |size| usize::try_from(size).unwrap_or(usize::MAX));
    if room > most {
        return Err(BodyError::TooLarge);
    }
    let mut body = response.into_body();
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::BrokeOff(describe(&error)))?;
        let Some(data) = frame.data_ref() else {
            continue;
        };
        if data.len() > room - bytes.len() {
            return Err(BodyError::TooLarge);
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

/// More at a time gain nothing from one server; over HTTP/1.1 each has a
/// connection of its own, and as many are kept.
const REQUESTS: usize = 64;
/// Most servers have closed a connection by then; what a firewall has dropped
/// without a word is not used again.
const IDLE: Duration = Duration::from_secs(90);
/// Of a connection that is idle: it is probed twice more before it is given up.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// For a head and the piece of a body behind it; a longer head is refused.
const BUFFER: usize = 32 << 10;
/// Bytes of all fields of a head together.
const HEADERS: u32 = 16 << 10;
/// Holds a usual bundle of two chains and keys without a further round trip.
const WINDOW: u32 = 64 << 10;
