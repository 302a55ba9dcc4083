//! HTTP endpoint that serves certificates, with counters and faults for tests.

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::ca::Pair;

/// Endpoint on its own thread. Dropping it ends the thread and all connections.
pub struct Endpoint {
    /// Bound address.
    pub address: SocketAddr,
    state: Arc<State>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

/// Protocol of an endpoint.
#[derive(Clone, Copy)]
pub enum Speaks<'a> {
    /// HTTP/1.1 in the clear.
    Plain,
    /// HTTP/1.1 over TLS, with this certificate.
    Http1(&'a Pair),
    /// HTTP/2 over TLS, or HTTP/1.1 for other clients.
    Http2(&'a Pair),
}

/// Answer to requests of a path.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status. A 200 becomes 304 if the request's condition names the `etag`
    /// field.
    pub status: u16,
    /// Further header fields.
    pub fields: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
    /// Delay before the answer.
    pub delay: Duration,
}

/// Request that the endpoint received.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method, in capitals.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// All header fields.
    pub fields: HeaderMap,
    /// The version of HTTP.
    pub version: http::Version,
    /// The body, as text.
    pub body: String,
}

#[derive(Default)]
struct State {
    answers: Mutex<HashMap<String, Answer>>,
    default: Mutex<Option<Answer>>,
    token: Mutex<Option<String>>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

impl Endpoint {
    /// Listens on a free port of loopback; answers 404.
    ///
    /// # Panics
    /// As [`Endpoint::start_at`].
    #[must_use]
    pub fn start(speaks: Speaks<'_>) -> Self {
        Self::start_at(([127, 0, 0, 1], 0).into(), speaks)
    }

    /// Listens on this address.
    ///
    /// # Panics
    /// If it is taken.
    #[must_use]
    pub fn start_at(address: SocketAddr, speaks: Speaks<'_>) -> Self {
        let listener = TcpListener::bind(address).expect("a free address");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a socket");
        let (stop, stopped) = oneshot::channel();
        let state = Arc::new(State::default());
        let acceptor = acceptor(speaks);
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                tokio::select! {
                    () = accept(listener, acceptor, shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Self {
            address,
            state,
            running: Some((stop, thread)),
        }
    }

    /// Sets the answer to requests of this path and query.
    pub fn put(&self, target: &str, answer: Answer) {
        lock(&self.state.answers).insert(target.to_owned(), answer);
    }

    /// Sets the answer to all other targets.
    pub fn otherwise(&self, answer: Answer) {
        *lock(&self.state.default) = Some(answer);
    }

    /// Answers 401 to requests without this bearer token.
    pub fn require(&self, token: &str) {
        *lock(&self.state.token) = Some(format!("Bearer {token}"));
    }

    /// Returns all requests so far.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.state.asked).clone()
    }

    /// Returns how often this target was requested.
    #[must_use]
    pub fn times(&self, target: &str) -> usize {
        let asked = lock(&self.state.asked);
        asked.iter().filter(|asked| asked.target == target).count()
    }

    /// Returns how many connections were accepted.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the largest number of open connections.
    #[must_use]
    pub fn most_open(&self) -> usize {
        self.state.most_open.load(Ordering::SeqCst)
    }

    /// Returns the largest number of requests in flight.
    #[must_use]
    pub fn most_in_flight(&self) -> usize {
        self.state.most_in_flight.load(Ordering::SeqCst)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            // The thread's panic was printed. A second panic here would abort.
            let _ = thread.join();
        }
    }
}

impl Answer {
    /// Makes a 200 with this body.
    #[must_use]
    pub fn ok(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            ..Self::status(200)
        }
    }

    /// Makes this status with an empty body.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            fields: Vec::new(),
            body: String::new(),
            delay: Duration::ZERO,
        }
    }

    /// Returns the answer with a further field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.fields.push((name, value.to_owned()));
        self
    }

    /// Returns the answer, sent after this time.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

impl State {
    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        // A body that breaks off is recorded as an empty one.
        let body = body.collect().await.map(Collected::to_bytes);
        let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
        let target = head
            .uri
            .path_and_query()
            .map_or("/", |target| target.as_str());
        lock(&self.asked).push(Asked {
            method: head.method.to_string(),
            target: target.to_owned(),
            fields: head.headers.clone(),
            version: head.version,
            body,
        });
        let answer = lock(&self.answers).get(target).cloned();
        let answer = answer.or_else(|| lock(&self.default).clone());
        let answer = answer.unwrap_or_else(|| Answer::status(404));
        let now = Counted::add(&self.in_flight, &self.most_in_flight);
        tokio::time::sleep(answer.delay).await;
        drop(now);
        let carried = head.headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        match &*lock(&self.token) {
            Some(token) if carried != Some(token.as_bytes()) => response(&Answer::status(401)),
            _ => conditional(&answer, &head.headers),
        }
    }
}

/// Guard that counts an open connection or a request in flight, until it is
/// dropped.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn add(count: &'a AtomicUsize, most: &AtomicUsize) -> Self {
        let now = count.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn conditional(answer: &Answer, fields: &HeaderMap) -> Response<Full<Bytes>> {
    let mut full = response(answer);
    let (tag, known) = (full.headers().get(ETAG), fields.get(IF_NONE_MATCH));
    if answer.status == 200 && tag.is_some() && tag == known {
        *full.status_mut() = StatusCode::NOT_MODIFIED;
        *full.body_mut() = Full::default();
    }
    full
}

fn response(answer: &Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.body.clone()));
    *response.status_mut() = StatusCode::from_u16(answer.status).expect("a status");
    for (name, value) in &answer.fields {
        let value = HeaderValue::from_str(value).expect("a value");
        let name = HeaderName::from_static(name);
        response.headers_mut().append(name, value);
    }
    response
}

async fn accept(listener: TcpListener, tls: Option<TlsAcceptor>, state: Arc<State>) {
    let listener = tokio::net::TcpListener::from_std(listener).expect("a runtime");
    loop {
        let (socket, _) = listener.accept().await.expect("a connection");
        state.connections.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(serve(socket, tls.clone(), Arc::clone(&state)));
    }
}

/// Errors are ignored: the client checks how a connection ends.
async fn serve(socket: TcpStream, tls: Option<TlsAcceptor>, state: Arc<State>) {
    let _open = Counted::add(&state.open, &state.most_open);
    let service = service_fn(|request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(state.answer(request).await) }
    });
    let Some(tls) = tls else {
        let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
        return drop(connection.await);
    };
    let Ok(stream) = tls.accept(socket).await else {
        return;
    };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let builder = http2::Builder::new(TokioExecutor::new());
        drop(
            builder
                .serve_connection(TokioIo::new(stream), service)
                .await,
        );
    } else {
        let builder = http1::Builder::new();
        drop(
            builder
                .serve_connection(TokioIo::new(stream), service)
                .await,
        );
    }
}

pub(crate) fn acceptor(speaks: Speaks<'_>) -> Option<TlsAcceptor> {
    let (pair, alpn): (_, &[&[u8]]) = match speaks {
        Speaks::Plain => return None,
        Speaks::Http1(pair) => (pair, &[b"http/1.1"]),
        Speaks::Http2(pair) => (pair, &[b"h2", b"http/1.1"]),
    };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(pair.chain.clone(), pair.key_der())
        .expect("a pair");
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    Some(TlsAcceptor::from(Arc::new(config)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
