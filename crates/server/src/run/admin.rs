//! The admin listener: health, readiness and metrics over plain HTTP/1.1.

mod access;
mod classic;
mod health;
mod listener;
mod token;
mod unauthenticated;

use std::convert::Infallible;
use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use sekisho_certs::LookupStats;
use sekisho_certs::metrics::Registry;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::observe::metrics::Metrics;
use crate::site::body::{Body, method_not_allowed, plain};
use listener::Socket;
use unauthenticated::{AccessPermit, Unauthenticated};

pub use listener::{Address, Listener};
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
}

/// Admin service, which answers `/healthz`, `/readyz` and `/metrics`.
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
        }))
    }

    /// Serves until `shutdown` resolves, then drops open connections. The
    /// service should outlive the drain: load balancers must see `/readyz`
    /// change.
    pub async fn serve(self, listener: Listener, shutdown: impl Future<Output = ()>) {
        let mut unauthenticated = Unauthenticated::default();
        let mut open = tokio::task::JoinSet::new();
        let accepting = async {
            loop {
                match listener.accept().await {
                    Ok(socket) => {
                        let admin = self.clone();
                        unauthenticated.admit(|permit| {
                            open.spawn(async move { admin.connection(socket, &permit).await })
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
            () = shutdown => {}
        }
    }

    async fn connection(&self, socket: Box<dyn Socket>, permit: &AccessPermit) {
        let service = service_fn(|request| {
            let mut response = self.answer(&request);
            let status = response.status();
            let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
            if !is_refused && !permit.take_from(&self.0.permits) {
                response = plain(StatusCode::SERVICE_UNAVAILABLE);
            }
            if !permit.is_taken() {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            async move { Ok::<_, Infallible>(response) }
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

    fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        if let Some(refused) = access::refuse(request, self.0.token.as_ref()) {
            return refused;
        }
        let answer: fn(&AdminState, &HeaderMap) -> Response<Body> = match request.uri().path() {
            "/healthz" => |state, _| health::healthz(state),
            "/readyz" => |state, _| health::readyz(state),
            "/metrics" => metrics,
            _ => return plain(StatusCode::NOT_FOUND),
        };
        if request.method() != Method::GET && request.method() != Method::HEAD {
            return method_not_allowed("GET, HEAD");
        }
        let mut response = answer(&self.0, request.headers());
        let no_store = HeaderValue::from_static("no-store");
        response.headers_mut().insert(CACHE_CONTROL, no_store);
        response
    }
}

struct AdminState {
    sources: Sources,
    token: Option<Token>,
    /// Permits for connections whose requests were let in.
    permits: Arc<Semaphore>,
    started: Instant,
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
/// From accepting to the end, slow readers included.
const CONNECTION_LIFE: Duration = Duration::from_secs(300);
/// Read buffer: the least that hyper takes. A request is one line and a token.
const BUFFER: usize = 8 << 10;
/// Pause after a failed accept: without free descriptors, retrying at once
/// would spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
