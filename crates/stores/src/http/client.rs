//! The connections to the endpoint: kept, shared where HTTP/2 allows it, and
//! bounded.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, HOST, HeaderName, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::answer::{self, Failure, Fetched};
use super::connect::{Connection, Target, told};

/// Sends requests, at most [`TURNS`] at a time, over at most as many
/// connections. All of it runs on the runtime that polls it.
pub(super) struct Client {
    target: Target,
    turns: Semaphore,
    kept: Mutex<Kept>,
    /// Held while a connection is opened that others may share.
    opening: tokio::sync::Mutex<()>,
    /// Whether the last connection could be shared; at first, perhaps.
    shares: AtomicBool,
}

/// A request without an answer, whether it failed or nobody waits any longer.
struct Waiting<'a> {
    client: &'a Client,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.client.forget();
        }
    }
}

/// Connections that nobody is using, or that all may use, with when each was
/// used last.
#[derive(Default)]
struct Kept {
    /// In the order of these times.
    idle: Vec<(Instant, http1::SendRequest<Empty<Bytes>>)>,
    shared: Option<(Instant, http2::SendRequest<Empty<Bytes>>)>,
}

impl Client {
    pub(super) fn new(target: Target) -> Self {
        Self {
            target,
            turns: Semaphore::new(TURNS),
            kept: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
            shares: AtomicBool::new(true),
        }
    }

    /// Waits for a turn, first come first served.
    pub(super) async fn turn(&self) -> SemaphorePermit<'_> {
        self.turns.acquire().await.expect("it is never closed")
    }

    /// Sends the request and reads its answer. The caller holds a turn and
    /// bounds the time.
    pub(super) async fn fetch(&self, get: &Get) -> Result<Fetched, Failure> {
        let mut waiting = Waiting {
            client: self,
            is_over: false,
        };
        let (response, connection) = self.response(get).await.map_err(Failure::Endpoint)?;
        let (fetched, is_read) = answer::read(response, get.is_conditional()).await;
        waiting.is_over = true;
        if is_read {
            self.keep(connection);
        }
        fetched
    }

    /// Drops what is kept: what failed once may have failed for all. What is
    /// in use is not cut off.
    fn forget(&self) {
        *self.kept() = Kept::default();
    }

    async fn response(&self, get: &Get) -> Result<(Response<Incoming>, Connection), String> {
        if let Some(mut connection) = self.take() {
            match connection.send(get).await {
                Ok(response) => return Ok((response, connection)),
                // The endpoint may have closed it just now, and a GET may be
                // sent again (RFC 9110, section 9.2.2).
                Err(_) => self.forget(),
            }
        }
        let mut connection = self.open().await?;
        let response = connection.send(get).await.map_err(|error| told(&error))?;
        Ok((response, connection))
    }

    fn take(&self) -> Option<Connection> {
        let mut kept = self.kept();
        if let Some((used, shared)) = &mut kept.shared {
            if used.elapsed() < IDLE && !shared.is_closed() {
                *used = Instant::now();
                return Some(Connection::Http2(shared.clone()));
            }
            kept.shared = None;
        }
        while let Some((used, idle)) = kept.idle.pop() {
            if used.elapsed() < IDLE && !idle.is_closed() {
                return Some(Connection::Http1(idle));
            }
        }
        None
    }

    /// Where connections can be shared, one is opened for all who wait.
    async fn open(&self) -> Result<Connection, String> {
        let mut opening = None;
        if self.shares.load(Ordering::Relaxed) {
            opening = Some(self.opening.lock().await);
            if let Some(connection) = self.take() {
                return Ok(connection);
            }
            if !self.shares.load(Ordering::Relaxed) {
                opening = None;
            }
        }
        let connection = self.target.connect().await?;
        let is_shared = matches!(connection, Connection::Http2(_));
        self.shares.store(is_shared, Ordering::Relaxed);
        if let Connection::Http2(sender) = &connection {
            self.kept().shared = Some((Instant::now(), sender.clone()));
        }
        drop(opening);
        Ok(connection)
    }

    fn keep(&self, connection: Connection) {
        if let Connection::Http1(sender) = connection
            && !sender.is_closed()
        {
            self.kept().idle.push((Instant::now(), sender));
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.kept();
        f.debug_struct("Client")
            .field("turns", &self.turns.available_permits())
            .field("idle", &kept.idle.len())
            .field("shared", &kept.shared.is_some())
            .finish_non_exhaustive()
    }
}

/// A request, in the form that each version of HTTP wants.
pub(super) struct Get {
    pub(super) authority: HeaderValue,
    pub(super) path: http::Uri,
    pub(super) url: http::Uri,
    /// `Bearer …`, marked as sensitive.
    pub(super) authorization: Option<HeaderValue>,
    /// The tag of what is remembered.
    pub(super) etag: Option<HeaderValue>,
}

impl Get {
    pub(super) fn http1(&self) -> Request<Empty<Bytes>> {
        let mut request = self.with_fields();
        *request.uri_mut() = self.path.clone();
        request.headers_mut().insert(HOST, self.authority.clone());
        request
    }

    pub(super) fn http2(&self) -> Request<Empty<Bytes>> {
        let mut request = self.with_fields();
        *request.uri_mut() = self.url.clone();
        request
    }

    fn is_conditional(&self) -> bool {
        self.etag.is_some()
    }

    fn with_fields(&self) -> Request<Empty<Bytes>> {
        let mut request = Request::new(Empty::new());
        let fields = request.headers_mut();
        fields.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        fields.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut add = |name: HeaderName, value: &Option<HeaderValue>| {
            if let Some(value) = value {
                fields.insert(name, value.clone());
            }
        };
        add(AUTHORIZATION, &self.authorization);
        add(IF_NONE_MATCH, &self.etag);
        request
    }
}

const AGENT: &str = concat!("sekisho/", env!("CARGO_PKG_VERSION"));
/// More at a time gain nothing from one endpoint; over HTTP/1.1 each has a
/// connection of its own.
const TURNS: usize = 64;
/// Most servers have closed a connection by then; what a firewall has dropped
/// without a word is not used again.
const IDLE: Duration = Duration::from_secs(90);
