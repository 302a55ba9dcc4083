//! A small HTTPS client: connections are kept and bounded, an answer has a
//! bound, and only the roots that it was given are believed. Redirects are not
//! followed. The caller bounds the time.

use std::error::Error;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::TRANSFER_ENCODING;
use http::{Request, Response, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use sekisho_certs::store::BoxFuture;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tower_service::Service;
use zeroize::Zeroizing;

/// Sends at most `REQUESTS` at a time. All of it runs on the runtime that
/// polls it.
pub struct HttpsClient {
    connector: Connector,
    pool: Mutex<Pool>,
    requests: Semaphore,
}

type Pool = Client<Connector, Full<Bytes>>;

impl HttpsClient {
    /// Speaks HTTP/2 where it is offered, else HTTP/1.1; `http://` too. The
    /// configuration names no protocols (ALPN).
    #[must_use]
    pub fn new(tls: ClientConfig) -> Self {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // A request is one small write, and somebody waits for the answer.
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT));
        let https = HttpsConnectorBuilder::new().with_tls_config(tls);
        let https = https.https_or_http().enable_all_versions();
        let connector = Connector(https.wrap_connector(tcp));
        Self {
            pool: Mutex::new(pool(&connector)),
            connector,
            requests: Semaphore::new(REQUESTS),
        }
    }

    /// Waits for a turn, first come first served.
    pub async fn turn(&self) -> SemaphorePermit<'_> {
        self.requests.acquire().await.expect("it is never closed")
    }

    /// Sends a request and has its answer read. The caller holds a turn.
    ///
    /// # Errors
    /// Says why there is no answer.
    pub async fn exchange<T, F>(
        &self,
        request: &Request<Full<Bytes>>,
        read: impl FnOnce(Response<Incoming>) -> F,
    ) -> Result<T, String>
    where
        F: Future<Output = T>,
    {
        let mut exchange = Exchange {
            client: self,
            has_answer: false,
        };
        let read = read(self.send(request).await?).await;
        exchange.has_answer = true;
        Ok(read)
    }

    async fn send(&self, request: &Request<Full<Bytes>>) -> Result<Response<Incoming>, String> {
        let pool = self.pool().clone();
        match pool.request(request.clone()).await {
            Ok(response) => Ok(response),
            Err(error) if error.is_connect() => {
                let cause = error.source().map_or_else(|| describe(&error), describe);
                Err(format!("no connection: {cause}"))
            }
            // The server may just have closed a connection that was kept (RFC
            // 9110, section 9.2.2).
            Err(_) if request.method().is_idempotent() => {
                self.forget();
                let pool = self.pool().clone();
                let again = pool.request(request.clone()).await;
                again.map_err(|error| describe(&error))
            }
            Err(error) => Err(describe(&error)),
        }
    }

    /// Drops the connections that are kept: what failed once may have failed for
    /// all. Those in use are not cut off.
    fn forget(&self) {
        *self.pool() = pool(&self.connector);
    }

    /// No code panics while it holds the lock.
    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for HttpsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsClient")
            .field("turns", &self.requests.available_permits())
            .finish_non_exhaustive()
    }
}

/// A request under way. One without an answer, failed or given up, takes the
/// connections that are kept with it.
struct Exchange<'a> {
    client: &'a HttpsClient,
    has_answer: bool,
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        if !self.has_answer {
            self.client.forget();
        }
    }
}

fn pool(connector: &Connector) -> Pool {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(REQUESTS)
        .http1_max_buf_size(BUFFER)
        .http2_initial_stream_window_size(WINDOW)
        .http2_initial_connection_window_size(WINDOW * 4)
        .http2_max_header_list_size(HEADERS)
        .build(connector.clone())
}

/// Bounds TCP and TLS together: the pool may go on connecting when the request
/// that asked for it has found another connection.
#[derive(Clone)]
struct Connector(HttpsConnector<HttpConnector>);

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connecting = self.0.call(uri);
        Box::pin(async move {
            let connected = timeout(CONNECT, connecting).await;
            connected.unwrap_or_else(|_| Err(format!("none within {CONNECT:?}").into()))
        })
    }
}

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

/// Words an error with its causes, each once.
pub(crate) fn describe(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// More at a time gain nothing from one server; over HTTP/1.1 each has a
/// connection of its own, and as many are kept.
const REQUESTS: usize = 64;
/// For TCP and TLS together, to all addresses of the name: below the two seconds
/// of a store call.
const CONNECT: Duration = Duration::from_millis(1500);
/// Most servers have closed a connection by then; what a firewall has dropped
/// without a word is not used again.
const IDLE: Duration = Duration::from_secs(90);
/// For a head and the piece of a body behind it; a longer head is refused.
const BUFFER: usize = 32 << 10;
/// All fields of a head together.
const HEADERS: u32 = 16 << 10;
/// Holds a usual bundle of two chains and keys without a further round trip.
const WINDOW: u32 = 64 << 10;
