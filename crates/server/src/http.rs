//! Serves HTTP/1.1 and HTTP/2 with hyper on an established connection, and
//! enforces the limits of `[server]`.

mod alias;
mod answer;
mod connection;
mod context;
mod drive;
mod plain;
pub(crate) mod respond;
pub(crate) mod route;
mod sending;
mod streams;
mod turn;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HeaderValue, STRICT_TRANSPORT_SECURITY};
use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioTimer;

use crate::connection::client::Client;
use crate::connection::request::{Refused, RequestContext, framing};
use crate::limits::in_flight::RequestPermit;
use crate::limits::timeouts::ConnTimeouts;
use crate::lookup::challenge;
use crate::observe::access_log::{Entry, Logged};
use crate::site::body::{self, Body};
use crate::tls::SEND_LIMIT;
use crate::tls::frames::CONNECTION_WINDOW;
use answer::{Answer, RequestGuard};
pub(crate) use connection::{serve, serve_plain};
use context::ConnContext;
pub(crate) use context::{Local, Numbers, Service};
use streams::Streams;

/// Makes the builder of connections of HTTP/1.1, once per worker.
pub(crate) fn http1_builder() -> http1::Builder {
    // A head has at most 100 fields, hyper's default: where a limit is set, builds
    // without LTO fill two arrays of that size for each request.
    let mut builder = http1::Builder::new();
    // `timeouts` enforces the head limit: hyper's own timer would be set
    // and cleared for each request.
    builder
        .header_read_timeout(None)
        // A client that has closed its sending side may still read (RFC
        // 8446, section 6.1).
        .half_close(true)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD);
    builder
}

/// Makes the builder of one connection of HTTP/2, with bounds on its streams.
fn http2_builder(streams: Streams) -> http2::Builder<Streams> {
    let mut builder = http2::Builder::new(streams);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_LIMIT)
        .max_header_list_size(u32::try_from(MAX_HEAD).expect("a few KB"))
        // WebSocket over HTTP/2 (RFC 8441).
        .enable_connect_protocol()
        .max_pending_accept_reset_streams(MAX_RESETS)
        // h2 counts these over the connection's life, which would end each
        // long connection. The frame budget charges resets instead.
        .max_local_error_reset_streams(None)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// Notes how the body of a request is framed, before the stream is read on. The future
/// answers the request.
fn served(
    context: &Arc<ConnContext>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Logged<Answer>>, Infallible>> + Send + use<> {
    let length = request.body().size_hint().exact();
    let has_length = context.timeouts().framing().note(length);
    let framing = framing::check(request.headers(), has_length);
    // A request that the future makes its own inside would have room in it twice.
    let (context, mut request) = (Arc::clone(context), Some(request));
    async move { Ok(answer(&context, &mut request, framing).await) }
}

/// Request until its site answers it. Steps borrow it: each would else move its 248
/// bytes twice.
type Unanswered = Option<Request<Incoming>>;

/// Answers one request, unless its `framing` is refused.
async fn answer(
    context: &ConnContext,
    unanswered: &mut Unanswered,
    framing: Result<(), Refused>,
) -> Response<Logged<Answer>> {
    let request = unanswered.as_ref().expect(UNANSWERED);
    let has_body = !request.body().is_end_stream();
    let guard = RequestGuard::new(context.timeouts(), has_body);
    // A connection that is never served takes no place between requests.
    let last = is_last(request) || context.redirects_all();
    let connect = request.method() == Method::CONNECT;
    let is_head = request.method() == Method::HEAD;
    let http1 = request.version() < Version::HTTP_2;
    context.turn.take(http1).await;
    let client = context.client(request.headers());
    let mut entry = context.entry(request, client.address);
    let answered = match framing {
        Ok(()) => respond(context, unanswered, client, entry.as_deref_mut()).await,
        Err(refused) => Err(refused),
    };
    let mut response = match answered {
        Ok(response) => response,
        Err(refused) => {
            if let Some(entry) = &mut entry {
                entry.refused(refused.lookup);
            }
            refuse(&refused, http1, context.timeouts())
        }
    };
    if is_head {
        response = body::without_content(response);
    }
    context.metrics().request(response.status());
    if !http1 {
        context.turn.charge(response.headers());
    }
    let leaves = connect || response.status() == StatusCode::SWITCHING_PROTOCOLS;
    // After CONNECT, the client may send bytes that are not HTTP.
    let closes = last || connect || context.local.drain.is_leaving();
    if http1 && closes && response.headers().get(CONNECTION).is_none() {
        response.headers_mut().insert(CONNECTION, CLOSE);
    }
    if http1 && last && !has_body && !leaves {
        let whole = response.body().in_memory();
        let small = whole.is_some_and(|bytes| bytes <= SEND_LIMIT as u64 / 2);
        context.timeouts().last(small);
    }
    let in_flight = response.extensions_mut().remove::<Arc<RequestPermit>>();
    let response = response.map(|body| Answer::new(body, guard, in_flight));
    Logged::response(response, entry)
}

/// Answers a challenge of a CA, else from the site of the request's host. Over plain HTTP a
/// request may be redirected to HTTPS instead: [`plain`] lists where. Without `[listen] plain`
/// no host is looked up: HTTPS answers whether it is served.
async fn respond(
    context: &ConnContext,
    unanswered: &mut Unanswered,
    client: Client,
    mut entry: Option<&mut Entry>,
) -> Result<Response<Body>, Refused> {
    let request = unanswered.as_ref().expect(UNANSWERED);
    let service = &context.local.service;
    let prefix = context.connection.prefix;
    if let Some(challenged) = challenge::respond(request, service.answers.as_deref(), prefix)
        && let Some(answer) = challenged.await
    {
        return Ok(answer);
    }
    if context.redirects_all() {
        return Ok(plain::to_same_url(request, service.https_port));
    }
    let routed = context.routes.route(&context.connection, request).await;
    if context.connection.is_plain() && plain::is_redirected(&routed) {
        if let Some(entry) = &mut entry {
            entry.refused(routed.map_or_else(|refused| refused.lookup, |target| target.lookup));
        }
        return Ok(plain::to_same_url(request, service.https_port));
    }
    let target = routed?;
    if let Some(entry) = &mut entry {
        let tenant = &target.served.host().record.tenant;
        entry.routed(target.name(&context.connection), tenant, target.lookup);
    }
    let alias = target.served.value().site().alias().cloned();
    let target = match alias {
        None => target,
        // Boxed: requests to other hosts have no room for it.
        Some(alias) => Box::pin(alias::follow(context, target, alias)).await?,
    };
    let site = target.served.value().site();
    let upstreams = &context.local.upstreams;
    let (connection, metrics) = (&context.connection, context.metrics());
    let context = RequestContext::new(connection, &target, client, entry.as_deref(), metrics);
    let responded = service
        .responder
        .respond(&context, upstreams, site, unanswered);
    let mut response = responded.await;
    if context.connection.is_plain() {
        // An upstream's, too (RFC 6797, section 7.2).
        response.headers_mut().remove(STRICT_TRANSPORT_SECURITY);
    }
    Ok(response)
}

/// Turns a refusal into a response. If the host is gone, the connection ends
/// after it.
fn refuse(refused: &Refused, http1: bool, timeouts: &ConnTimeouts) -> Response<Body> {
    let mut response = Body::plain(refused.status, Bytes::from_static(refused.text.as_bytes()));
    if refused.ends {
        timeouts.wind_down();
        if http1 {
            response.headers_mut().insert(CONNECTION, CLOSE);
        }
    }
    response
}

/// Returns whether the client wants the connection closed after this request
/// (RFC 9112, section 9.3).
fn is_last(request: &Request<Incoming>) -> bool {
    let mut tokens = request
        .headers()
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim);
    match request.version() {
        Version::HTTP_11 => tokens.any(|token| token.eq_ignore_ascii_case("close")),
        Version::HTTP_10 | Version::HTTP_09 => {
            !tokens.any(|token| token.eq_ignore_ascii_case("keep-alive"))
        }
        _ => false,
    }
}

const UNANSWERED: &str = "a request is answered once";

const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Bytes of a request's head: four times what browsers and cookies need.
const MAX_HEAD: usize = 32 * 1024;

/// Concurrent streams; browsers open up to 100.
const MAX_STREAMS: u32 = 100;

/// Bytes of a stream that a client may send before they are taken: with a round trip of
/// 50 ms, 40 MiB per second.
const STREAM_WINDOW: u32 = 2 << 20;
/// Streams that a client may reset before hyper accepts them (CVE-2023-44487).
const MAX_RESETS: usize = 20;

/// A client that vanished without a FIN is noticed after both, 40 s.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
