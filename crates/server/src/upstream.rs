//! Reverse proxy: passes requests on to upstream servers, and their answers
//! back.
//!
//! A request takes these steps: `head` changes its head; a server is chosen and
//! its addresses are judged; `pool` has a connection, or `connect` opens one;
//! `upload` streams the body while the head of the answer is awaited; `answer`
//! passes that back, with the body as it comes, and gives the connection back.
//! What leaves HTTP goes through `upgrade` and `tunnel`.

mod answer;
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
mod lease;
mod loop_id;
mod metered;
mod opening;
mod owned;
mod parts;
mod permits;
mod places;
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
mod watch;
mod watched;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;

use crate::body::Body;
use crate::request::RequestContext;
use crate::site::{DEFAULT_BODY_LIMIT, RuleOptions, Upstream};
use answer::InFlight;
use choice::rendezvous;
pub(crate) use descriptors::Descriptors;
use exchange::Exchange;
use failure::Failure;
use lease::Lease;
pub use loop_id::LoopId;
pub(crate) use parts::{Upstreams, Worker};
pub use pool::unused_connections;
use send::{Answered, Sending};
pub(crate) use servers::{Background, Servers};
pub(crate) use sockets::SocketTurns;
use still_served::StillServed;
pub use tls::LoadRoots;
pub(crate) use tls::TlsClients;
use tunnel::Tunnel;
use upload::Upload;

/// Way of a request to an upstream.
#[derive(Clone, Copy)]
pub(crate) struct Way<'a> {
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
    way: Way<'a>,
    head: Parts,
    body: Incoming,
) -> impl Future<Output = Result<Response<Body>, StatusCode>> + Send + 'a {
    // Boxed: other answers have no room for it. Written in place: made first and then
    // boxed, its 2,900 bytes would be moved twice.
    let passed = Box::into_pin(Box::write(
        Box::new_uninit(),
        pass(context, worker, way, head, body),
    ));
    async move {
        passed
            .await
            .map_err(|failure| log(context, worker, way, &failure))
    }
}

/// Logs a failure, and returns its status.
fn log(
    context: &RequestContext<'_>,
    worker: &Worker,
    way: Way<'_>,
    failure: &Failure,
) -> StatusCode {
    let host = context.host.as_str();
    let (status, limits) = (failure.status(), &worker.upstreams.hosts.log_limits);
    match failure.hint() {
        Some(hint) => {
            let whose = (host, context.tenant);
            limits.upstream_failed(whose, way.upstream, failure, status, hint);
        }
        None => tracing::debug!(host, %failure, "request not passed on"),
    }
    status
}

async fn pass(
    context: &RequestContext<'_>,
    worker: &Arc<Worker>,
    way: Way<'_>,
    mut head: Parts,
    body: Incoming,
) -> Result<Response<Body>, Failure> {
    let options = way.upstream.options();
    let connect = upgrade::extended_connect(&mut head).map_err(Failure::Refused)?;
    // The stream of an extended CONNECT is no body.
    let has_body = connect.is_none() && !body.is_end_stream();
    // The rule may remove the cookie.
    let cookie = rendezvous::cookie_of(&options.balance, &head.headers);
    let outgoing = head::prepare(&mut head, has_body, way, (context, &worker.upstreams));
    let outgoing = outgoing.map_err(Failure::Refused)?;
    head::retarget(&mut head, way.path).map_err(Failure::Refused)?;
    let asked = outgoing.upgrade;
    let protocol = reach::version(options.protocol, asked.is_some());
    let protocol = protocol.map_err(Failure::Refused)?;
    let timeouts = &context.connection.timeouts;
    let at_upstream = timeouts.at_upstream();
    let exchange = has_body.then(|| Arc::new(Exchange::new(outgoing.expects, timeouts.flow())));
    let upload = match &exchange {
        Some(exchange) => {
            let limit = way
                .options
                .map_or(DEFAULT_BODY_LIMIT, |options| options.body_limit);
            Upload::new(
                body,
                limit,
                head::ours(options, context, &worker.upstreams),
                exchange,
                timeouts,
            )
        }
        None => Upload::default(),
    };
    let sending = Sending {
        context,
        worker,
        cookie,
        upstream: way.upstream,
        exchange: exchange.as_ref(),
        protocol,
        upgrades: asked.is_some(),
    };
    let mut request = Some(Request::from_parts(head, upload));
    let Answered {
        response,
        mut lease,
        chosen,
    } = sending.send(&mut request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let asked = asked.ok_or(Failure::answer("it switched protocols unasked"))?;
        let tunnel = Tunnel::new(
            options.timeouts.upgraded,
            at_upstream,
            StillServed::of(context, worker),
            (chosen, lease.as_mut().and_then(Lease::take_permit)),
        );
        let switched = upgrade::switch(response, &asked, connect, context, tunnel);
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
