//! Reverse proxy: passes requests on to upstream servers, and their answers
//! back.
//!
//! A request takes these steps: `head` changes its head; a server is chosen; `pool` has
//! a connection, or `connect` opens one to an address that was judged; `upload` streams the body while the head of the answer is awaited; `answer`
//! passes that back, with the body as it comes, and gives the connection back.
//! What leaves HTTP goes through `upgrade` and `tunnel`.
//!
//! # The way to an upstream
//!
//! Nothing is kept whole: a body moves as fast as its reader takes it, in both
//! directions. Connections to upstreams belong to the worker that opened them. What is
//! known of a server is shared by all workers; its key is the *backend*: the owner (a tenant,
//! or the operator for `[site]`), the settings, and the address.
//!
//! ```text
//!  crates/server/src/upstream
//!  ──────────────────────────
//!  head.rs        the request's head, changed in place: fields.rs says what is removed
//!    │              and never taken from a client; 508 for a loop
//!    ▼
//!  send.rs        a server, and the head of its answer; another connection where nothing
//!    │              can have been acted on
//!    ├─ choice.rs     which server: choice/draw.rs by load, choice/rendezvous.rs by client
//!    │                  or cookie; servers.rs has the state of each backend, in a table
//!    │                  of which an owner has its part (owned.rs): ejection.rs ejects it,
//!    │                  check.rs asks it, permits.rs bounds its connections, by client
//!    │                  prefix (permits/state.rs), and its retries;
//!    │                  chosen.rs is its use by one request
//!    ├─ resolve.rs    its addresses; resolve/ask.rs asks, on the background runtime, in
//!    │                  turns of the tenants
//!    ├─ reach.rs      a connection within one deadline; identity.rs has the site's TLS
//!    │                  identity, site/guard.rs judges addresses, and sockets are opened with
//!    │                  permits of the tenant (sockets.rs); descriptors.rs bounds those of the
//!    │                  process
//!    ├─ pool.rs       connections by address, protocol, TLS identity and owner;
//!    │                  pool/room.rs says which unused ones make room;
//!    │                  lease.rs is one in use, ended where its request ends early
//!    ├─ opening.rs    a permit to begin a new one
//!    ├─ connect.rs    opens it: transport.rs (TCP, TLS, Unix), tls.rs (CA, name and
//!    │                  client certificate of the site), then HTTP/1.1 or HTTP/2;
//!    │                  metered.rs bounds records of TLS without data
//!    ├─ upload.rs     the body, while the answer is awaited; exchange.rs tells a slow
//!    │                  client from a slow upstream
//!    └─ bounded.rs    bounds informational answers, and frames of HTTP/2 by the budget
//!                       of tls/frames.rs; informational.rs reads informational answers of HTTP/1.1
//!    ▼
//!  answer.rs      the answer's head, cleaned, and its body as it comes; its end gives
//!    │              the connection back
//!    └─ upgrade.rs    101 where it was asked for: tunnel.rs copies bytes both ways,
//!                       behind an HTTP/1.1 connection or a stream of HTTP/2
//! ```
//!
//! Each time limit of an upstream stands where the wait is:
//!
//! | key of `timeouts` | begins | kept in |
//! | --- | --- | --- |
//! | `connect` | with the choice of a server; one deadline over all steps and addresses | `upstream/reach.rs` |
//! | `first_byte` | when the request is sent; anew while its body moves | `upstream/send.rs` |
//! | `idle` | when the upstream sends nothing of a body; also bounds an unused connection | `upstream/answer.rs` |
//! | `upgraded` | with the last byte, in either direction | `upstream/tunnel.rs`, for streams of events `answer.rs` |
//!
//! A client that is slow is ended by `limits/timeouts.rs` instead. hyper polls the body of an
//! answer only if the client takes what came before.

mod answer;
mod bounded;
mod check;
mod choice;
mod chosen;
mod connect;
mod descriptors;
mod ejection;
mod exchange;
mod failure;
mod fields;
mod head;
mod identity;
mod informational;
mod lease;
mod loop_id;
mod metered;
mod opening;
mod owned;
mod parts;
mod permits;
mod pool;
mod reach;
mod resolve;
mod send;
mod servers;
mod sockets;
mod still_served;
mod tls;
mod transport;
mod tunnel;
mod upgrade;
mod upload;
mod wakes;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::connection::request::RequestContext;
use crate::limits::bodies::Held;
use crate::site::body::Body;
use crate::site::{DEFAULT_BODY_LIMIT, RuleOptions, Upstream};
use answer::InFlight;
use choice::rendezvous;
pub(crate) use descriptors::Descriptors;
use exchange::Exchange;
use failure::Failure;
pub use loop_id::LoopId;
pub(crate) use parts::{Upstreams, Worker};
pub use pool::unused_connections;
use send::Sending;
pub(crate) use servers::{Background, Servers};
pub(crate) use sockets::Sockets;
use still_served::StillServed;
pub use tls::LoadRoots;
pub(crate) use tls::TlsClients;
use tunnel::Leaving;
use upload::Upload;

/// Upstream that a request is passed on to, and its path there.
#[derive(Clone, Copy)]
pub(crate) struct ForwardTo<'a> {
    pub(crate) upstream: &'a Arc<Upstream>,
    /// Path that was matched and rewritten, percent-encoded.
    pub(crate) path: &'a str,
    /// Options of the rule.
    pub(crate) options: Option<&'a RuleOptions>,
}

/// Passes a request on, and its answer back.
///
/// # Errors
/// The status of our own answer:
///
/// - 400 if the head can't be passed on, or the client's body breaks off;
/// - 405 for a CONNECT that names no protocol;
/// - 408 if the body waits for its client, whose network has most connections, while another
///   network needs one;
/// - 413 if the body is longer than the site allows;
/// - 501 for an upgrade towards an upstream of HTTP/2 alone, and for an extended
///   CONNECT of another protocol than WebSocket;
/// - 502 if the upstream can't be reached or answers wrongly;
/// - 503 if no server may take the request;
/// - 504 if the upstream is late;
/// - 508 for a request that has passed a server of this catalog before.
pub(crate) fn forward<'a>(
    context: &'a RequestContext<'a>,
    worker: &'a Arc<Worker>,
    to: ForwardTo<'a>,
    head: Parts,
    body: Incoming,
) -> impl Future<Output = Result<Response<Body>, StatusCode>> + Send + 'a {
    // Boxed: other answers have no room for it. Written in place: made first and then
    // boxed, its 2,900 bytes would be moved twice.
    let passed = Box::into_pin(Box::write(
        Box::new_uninit(),
        pass(context, worker, to, head, body),
    ));
    async move {
        passed
            .await
            .map_err(|failure| log(context, worker, to, &failure))
    }
}

/// Logs a failure, and returns its status.
fn log(
    context: &RequestContext<'_>,
    worker: &Worker,
    to: ForwardTo<'_>,
    failure: &Failure,
) -> StatusCode {
    let host = context.host.as_str();
    let (status, limits) = (failure.status(), &worker.upstreams.hosts.log_limits);
    match failure.hint() {
        Some(hint) => {
            let whose = (host, context.tenant);
            limits.upstream_failed(whose, to.upstream, failure, status, hint);
        }
        None => tracing::debug!(host, %failure, "request not passed on"),
    }
    status
}

async fn pass(
    context: &RequestContext<'_>,
    worker: &Arc<Worker>,
    to: ForwardTo<'_>,
    mut head: Parts,
    body: Incoming,
) -> Result<Response<Body>, Failure> {
    let options = to.upstream.options();
    let connect = upgrade::extended_connect(&mut head).map_err(Failure::Refused)?;
    // The stream of an extended CONNECT is no body.
    let has_body = connect.is_none() && !body.is_end_stream();
    // The rule may remove the cookie.
    let cookie = rendezvous::cookie_of(&options.balance, &head.headers);
    let outgoing = head::prepare(&mut head, has_body, to, (context, &worker.upstreams));
    let outgoing = outgoing.map_err(Failure::Refused)?;
    head::retarget(&mut head, to.path).map_err(Failure::Refused)?;
    let asked = outgoing.upgrade;
    let protocol = reach::version(options.protocol, asked.is_some());
    let protocol = protocol.map_err(Failure::Refused)?;
    let timeouts = &context.connection.timeouts;
    let at_upstream = timeouts.at_upstream();
    let exchange = has_body.then(|| Arc::new(Exchange::new(outgoing.expects, timeouts.flow())));
    let upload = exchange.as_ref().map_or_else(Upload::default, |exchange| {
        let limit = to
            .options
            .map_or(DEFAULT_BODY_LIMIT, |options| options.body_limit);
        Upload::new(body, limit, outgoing.ours, exchange, timeouts)
    });
    let sending = Sending {
        context,
        worker,
        cookie,
        upstream: to.upstream,
        exchange: exchange.as_ref(),
        protocol,
        upgrades: asked.is_some(),
    };
    let mut request = Some(Request::from_parts(head, upload));
    let (response, mut lease, chosen) = sending.send(&mut request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let asked = asked.ok_or(Failure::answer("it switched protocols unasked"))?;
        let leaving = Leaving {
            idle: options.timeouts.upgraded,
            held: at_upstream.held().map(Held::of_tunnel),
            at_upstream,
            host: StillServed::of(context, worker),
            _used: (chosen, lease.permit.take()),
        };
        let switched = upgrade::switch(response, &asked, connect, context, leaving);
        // Boxed: answers have no room for it.
        return Box::pin(switched).await;
    }
    if connect.is_some() && response.status().is_success() {
        return Err(Failure::answer("it did not switch to WebSocket"));
    }
    let in_flight = InFlight {
        lease,
        chosen,
        exchange,
        at_upstream,
    };
    let host = StillServed::of(context, worker);
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let mut cx = Context::from_waker(&waker);
    answer::pass_back(&mut cx, response, &options.timeouts, in_flight, host)
}
