//! The admin listener: health, readiness and metrics over plain HTTP/1.1.

mod access;
mod classic;
mod health;
mod listener;
mod token;
mod unauthenticated;

use std::convert::Infallible;
use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use sekisho_certs::LookupStats;
use sekisho_certs::metrics::Registry;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::observe::metrics::Metrics;
use crate::site::body::{Body, is_read, method_not_allowed, plain};
use listener::Socket;
use unauthenticated::{AccessPermit, Unauthenticated};

pub use health::lookup_state;
pub use listener::{Address, Listener, ListenerHandle};
pub use token::{MAX_TOKEN, Token};

/// Sources of the admin listener's answers. Each request reads them anew.
pub struct Sources {
    /// Counters of connections.
    pub metrics: Arc<Metrics>,
    /// Returns the state of the cache, the store and the change feed.
    pub lookup_stats: Box<dyn Fn() -> LookupStats + Send + Sync>,
    /// Returns whether the server drains.
    pub draining: Box<dyn Fn() -> bool + Send + Sync>,
    /// All metrics.
    pub registry: Registry,
    /// Digest of the settings that judge sites, as they were read at the start.
    pub sites_digest: Box<str>,
    /// Makes the answer of `/status`: for whom may connect to the Unix socket, or for all.
    pub status: Box<dyn Fn(Audience) -> Reply<serde_json::Value> + Send + Sync>,
    /// Changes the process, for whom may connect to the Unix socket.
    pub control: Box<dyn Fn(Control) -> Reply<Result<String, Uncontrolled>> + Send + Sync>,
}

/// Answer that takes its time.
pub type Reply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Why the process was not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncontrolled {
    /// Another change is under way, or this process is being replaced: ask again.
    Busy,
    /// The change failed, for this reason.
    Failed(String),
}

/// Caller of `/status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The server's user, over the Unix socket.
    Operator,
    /// A caller that reaches the TCP address and has its token.
    Network,
}

/// Change of the process. Processes of two versions tell each other of it: its words stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// Begin anew with the configuration as it is now.
    Reload,
    /// Begin the program that is on the disk.
    Upgrade,
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reload => "reload",
            Self::Upgrade => "upgrade",
        })
    }
}

/// Admin service, which answers `/healthz`, `/readyz`, `/metrics` and `/status`, and over
/// a Unix socket takes `/reload` and `/upgrade`.
#[derive(Clone)]
pub struct Admin(Arc<AdminState>);

impl Admin {
    /// Makes the service. With a token, each request must carry it. Without
    /// one, only requests that name a loopback host are answered: a page in the
    /// operator's browser could otherwise read it by DNS rebinding.
    #[must_use]
    pub fn new(sources: Sources, token: Option<Token>) -> Self {
        Self(Arc::new(AdminState {
            sources,
            token,
            permits: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            started: Instant::now(),
            leaving: AtomicBool::new(false),
        }))
    }

    /// Serves until `left` resolves, then answers requests in flight for at most
    /// 10 s. Returns the listener, whose socket another process may serve. The
    /// service should outlive the drain: load balancers must see `/readyz` change.
    pub async fn serve(self, listener: Listener, left: impl Future<Output = ()>) -> Listener {
        let audience = listener.audience();
        let mut unauthenticated = Unauthenticated::default();
        let mut open = tokio::task::JoinSet::new();
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok(socket) => {
                        let admin = self.clone();
                        unauthenticated.admit(|permit| {
                            open.spawn(async move {
                                admin.connection(socket, &permit, audience).await;
                            })
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "admin listener: accept failed, retrying");
                        sleep(ACCEPT_PAUSE).await;
                    }
                }
                while open.try_join_next().is_some() {}
            }
        };
        tokio::select! {
            () = accepting => {}
            () = left => {}
        }
        self.0.leaving.store(true, Ordering::Relaxed);
        // The caller that asked for a hand-over waits for its outcome.
        tokio::spawn(timeout(LEAVE, open.join_all()));
        listener
    }

    /// Waits until no connection is open whose request was let in, at most 10 s.
    pub async fn drained(self) {
        let all = u32::try_from(MAX_CONNECTIONS).expect("64");
        let _ = timeout(LEAVE, self.0.permits.acquire_many(all)).await;
    }

    async fn connection(&self, socket: Box<dyn Socket>, permit: &AccessPermit, audience: Audience) {
        let service = service_fn(async |request: Request<_>| {
            // Held while a hand-over is under way, whose end waits for this answer.
            if request.method() == Method::POST && audience == Audience::Operator {
                permit.take_from(&self.0.permits);
            }
            let mut response = self.answer(&request, audience).await;
            let status = response.status();
            let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if !is_refused && !permit.take_from(&self.0.permits) {
                response = plain(StatusCode::SERVICE_UNAVAILABLE);
            }
            if !permit.is_taken() || self.0.leaving.load(Ordering::Relaxed) {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok::<_, Infallible>(response)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(socket), service);
        let newcomer = async {
            sleep(UNAUTHENTICATED_LIFE).await;
            if permit.is_taken() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            ended = timeout(CONNECTION_LIFE, connection) => {
                if let Ok(Err(error)) = ended {
                    tracing::debug!(%error, "admin connection failed");
                }
            }
            () = newcomer => {}
        }
    }

    async fn answer<B>(&self, request: &Request<B>, audience: Audience) -> Response<Body> {
        if let Some(refused) = access::refuse(request, self.0.token.as_ref()) {
            return refused;
        }
        let (method, path) = (request.method(), request.uri().path());
        match path {
            "/reload" => return self.control(method, Control::Reload, audience).await,
            "/upgrade" => return self.control(method, Control::Upgrade, audience).await,
            "/healthz" | "/readyz" | "/metrics" | "/status" => {}
            _ => return plain(StatusCode::NOT_FOUND),
        }
        if !is_read(method) {
            return method_not_allowed("GET, HEAD");
        }
        let mut response = match path {
            "/healthz" => health::healthz(&self.0),
            "/readyz" => health::readyz(&self.0),
            "/status" => json(&(self.0.sources.status)(audience).await),
            _ => metrics(&self.0, request.headers()),
        };
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(CACHE_CONTROL, no_store);
        response
    }

    /// Changes the process and waits for the outcome.
    async fn control(
        &self,
        method: &Method,
        control: Control,
        audience: Audience,
    ) -> Response<Body> {
        if audience == Audience::Network {
            return Body::plain(StatusCode::FORBIDDEN, UNIX_ONLY);
        }
        if method != Method::POST {
            return method_not_allowed("POST");
        }
        let (status, text) = match (self.0.sources.control)(control).await {
            Ok(text) => (StatusCode::OK, text),
            Err(Uncontrolled::Failed(text)) => (StatusCode::CONFLICT, text),
            Err(Uncontrolled::Busy) => (StatusCode::SERVICE_UNAVAILABLE, BUSY.to_owned()),
        };
        Body::plain(status, format!("{text}\n"))
    }
}

struct AdminState {
    sources: Sources,
    token: Option<Token>,
    /// Permits for connections whose requests were let in.
    permits: Arc<Semaphore>,
    started: Instant,
    /// Answers are the last ones of their connections. Relaxed: it orders nothing else.
    leaving: AtomicBool,
}

/// Makes an answer of JSON.
fn json(value: &serde_json::Value) -> Response<Body> {
    let mut response = Body::plain(StatusCode::OK, format!("{value}\n"));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Answers in the format of OpenMetrics if the client asks for it, else in that of
/// Prometheus.
fn metrics(shared: &AdminState, fields: &HeaderMap) -> Response<Body> {
    let mut text = String::new();
    encode(&mut text, &shared.sources.registry).expect("a String takes all text");
    let accepted = fields.get_all(ACCEPT).iter();
    let mut ranges = accepted.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let is_open_metrics = ranges.any(|range| range.trim_ascii().starts_with(OPEN_METRICS_TYPE));
    let (text, kind) = match is_open_metrics {
        true => (text, OPEN_METRICS),
        false => (classic::of(&text), CLASSIC),
    };
    let mut response = Body::plain(StatusCode::OK, text);
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

const OPEN_METRICS_TYPE: &[u8] = b"application/openmetrics-text";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Connections whose requests were let in: probes, scrapers and an
/// operator or two.
const MAX_CONNECTIONS: usize = 64;
/// Timeout of a request's head, and between two requests.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// From accepting until a request was let in.
const UNAUTHENTICATED_LIFE: Duration = Duration::from_secs(5);
/// Time for answers in flight once another process serves the socket: longer than a
/// hand-over takes to let go.
const LEAVE: Duration = Duration::from_secs(10);
const BUSY: &str = "another hand-over is under way, or has just been done; ask again";
const UNIX_ONLY: &str = "403 Forbidden: only over a Unix socket; set [listen] admin = \"unix:PATH\", \
    or send the process SIGHUP (reload) or SIGUSR2 (upgrade)\n";
/// From accepting to the end, slow readers included.
const CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// Read buffer: the least that hyper takes. A request is one line and a token.
const BUFFER: usize = 8 << 10;
/// Pause after a failed accept: without free descriptors, retrying at once
/// would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
