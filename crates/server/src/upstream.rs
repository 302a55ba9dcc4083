//! Reverse proxy: passes requests on to upstream servers, and their answers
//! back.
//!
//! A request takes these steps: `request` changes its head; `send` chooses one of the
//! `servers`; `reach` has one of the `connections`, or opens one to an address that was
//! judged; the body is streamed while the head of the answer is awaited; `answer` passes that
//! back, with the body as it comes, and gives the connection back.
//!
//! A CGI program takes an upstream's place: `program` runs it.
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
//!  request/head.rs     the head, changed in place: request/fields.rs says what is removed
//!    │                   and never taken from a client; 508 for a loop
//!    │
//!    ├─ request/upload.rs    the body, while the answer is awaited; request/exchange.rs
//!    │                         tells a slow client from a slow upstream; request/whole.rs
//!    │                         collects one without a length for a script
//!    ▼
//!  send.rs             a server, and the head of its answer; another connection if nothing
//!    │                   can have been acted on
//!    │
//!    ├─ servers/choice.rs    which one: servers/choice/draw.rs by load,
//!    │                         servers/choice/rendezvous.rs by client or cookie
//!    ├─ servers.rs           the state of each backend, in a table of which an owner has
//!    │                         its part (owned.rs): servers/ejection.rs ejects it,
//!    │                         servers/check.rs asks it, permits.rs bounds its connections,
//!    │                         by client prefix (permits/state.rs), and its retries;
//!    │                         servers/chosen.rs is its use by one request
//!    ├─ servers/resolve.rs   its addresses; servers/resolve/ask.rs asks, on the background
//!    │                         runtime, in turns of the tenants
//!    ▼
//!  reach.rs            a connection within one deadline; site/guard.rs judges addresses
//!    │
//!    ├─ connections/pool.rs  connections by address, protocol, TLS identity and owner;
//!    │                         connections/pool/room.rs says which unused ones make room;
//!    │                         connections/lease.rs is one in use, ended if its request
//!    │                         ends early
//!    ├─ connections/identity.rs   the site's TLS identity
//!    ├─ connections/opening.rs    a permit to begin a new one; connections/sockets.rs has
//!    │                         those of a tenant for Unix sockets, connections/judged.rs
//!    │                         the sockets of FastCGI that were judged just before,
//!    │                         connections/descriptors.rs those of the process
//!    ├─ connections/connect.rs    opens it: connections/transport.rs (TCP, TLS, Unix),
//!    │                         connections/tls.rs (CA, name and client certificate of the
//!    │                         site), then HTTP/1.1 or HTTP/2; connections/metered.rs bounds
//!    │                         records of TLS without data
//!    ├─ connections/fastcgi.rs    runs a script over FastCGI, with the parameters of
//!    │                         request/params.rs: connections/fastcgi/record.rs frames
//!    │                         both directions; conversation.rs moves them, as those of
//!    │                         a program, conversation/head.rs reads the answer's head
//!    ├─ connections/bounded.rs    bounds informational answers, which
//!    │                         connections/informational.rs reads, and frames of HTTP/2 by
//!    │                         the budget of tls/frames.rs
//!    ▼
//!  answer.rs           the answer's head, cleaned, and its body as it comes
//!    │                   (answer/arriving.rs); its end gives the connection back
//!    ├─ answer/still_served.rs    whether the host of a long answer is still served so
//!    ├─ answer/drain.rs     reads what a script sends behind its answer
//!    └─ answer/upgrade.rs         101 if it was asked for: answer/tunnel.rs copies bytes
//!                                   both ways, behind an HTTP/1.1 connection or a stream
//!                                   of HTTP/2
//! ```
//!
//! Each time limit of an upstream stands where the wait is:
//!
//! | key of `timeouts` | begins | kept in |
//! | --- | --- | --- |
//! | `connect` | with the choice of a server; one deadline over all steps and addresses | `upstream/reach.rs` |
//! | `first_byte` | when the request is sent; anew while its body moves | `upstream/send.rs` |
//! | `idle` | when the upstream sends nothing of a body; also bounds an unused connection | `upstream/answer.rs` |
//! | `upgraded` | with the last byte, in either direction | `upstream/answer/tunnel.rs`, for streams of events `answer.rs` |
//!
//! A client that is slow is ended by `limits/timeouts.rs` instead. hyper polls the body of an
//! answer only if the client takes what came before.

mod answer;
mod connections;
mod conversation;
mod failure;
mod owned;
mod parts;
mod permits;
mod program;
mod reach;
mod request;
mod send;
mod servers;

use std::fmt::Display;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::Instant;

use crate::cgi::Program;
use crate::connection::request::RequestContext;
use crate::limits::bodies::Held;
use crate::limits::in_flight::RequestPermit;
use crate::limits::timeouts::AtUpstream;
use crate::site::body::Body;
use crate::site::{RuleOptions, Upstream, UpstreamOptions};
use answer::arriving::Arriving;
use answer::still_served::StillServed;
use answer::tunnel::Leaving;
use answer::upgrade::Connect;
use answer::{InFlight, upgrade};
pub(crate) use connections::descriptors::Descriptors;
#[cfg(fuzzing)]
pub use connections::fastcgi::testing::fastcgi_answer;
use connections::lease::Lease;
pub use connections::pool::unused_connections;
pub(crate) use connections::sockets::Sockets;
pub use connections::tls::LoadRoots;
pub(crate) use connections::tls::TlsClients;
pub(crate) use conversation::head::LocalRedirect;
use failure::Failure;
pub(crate) use parts::{Upstreams, Worker};
pub(crate) use program::look;
use request::exchange::Exchange;
use request::fields::OurFields;
use request::head;
pub use request::loop_id::LoopId;
pub(crate) use request::params::Script;
use request::upload::Upload;
pub(crate) use request::whole::Collecting;
use request::whole::LONGEST;
use send::Sending;
use servers::choice::rendezvous;
use servers::chosen::Chosen;
pub(crate) use servers::{Background, Servers};

/// Recipient of a request.
#[derive(Clone, Copy)]
pub(crate) enum Recipient<'a> {
    /// Upstream of HTTP, and the path there: matched and rewritten, percent-encoded.
    Http(&'a Arc<Upstream>, &'a str),
    /// FastCGI server that runs a script.
    Script(&'a Arc<Upstream>, &'a Script<'a>),
    /// CGI program.
    Program(&'a Program, &'a Script<'a>),
}

impl<'a> Recipient<'a> {
    /// Returns its options, and the script or program that it runs.
    fn options_and_script(self) -> (&'a UpstreamOptions, Option<&'a Script<'a>>) {
        match self {
            Self::Http(upstream, _) => (upstream.options(), None),
            Self::Script(upstream, script) => (upstream.options(), Some(script)),
            Self::Program(_, script) => (UpstreamOptions::of_programs(), Some(script)),
        }
    }
}

/// Recipient that a request is passed on to, with the options of its rule.
#[derive(Clone, Copy)]
pub(crate) struct ForwardTo<'a> {
    pub(crate) recipient: Recipient<'a>,
    pub(crate) options: Option<&'a RuleOptions>,
    /// Permit of the request, if its rule bounds those in flight.
    pub(crate) in_flight: Option<&'a Arc<RequestPermit>>,
}

/// Passes a request on, and its answer back. A program may say from which path the answer comes
/// instead: such an answer has [`LocalRedirect`] and no body.
///
/// # Errors
/// The status of our own answer:
///
/// - 400 if the head can't be passed on, or the client's body breaks off;
/// - 405 for a CONNECT that names no protocol;
/// - 408 if the body waits for its client, whose network has most connections, while another
///   network needs one;
/// - 411 if the body of a script's request has no length, and is too long to be collected;
/// - 413 if the body is longer than the site allows;
/// - 501 for an upgrade towards an upstream of HTTP/2 alone, for WebSocket over HTTP/2 to a
///   script, and for an extended CONNECT of another protocol than WebSocket;
/// - 502 if the upstream can't be reached or answers wrongly;
/// - 503 if no server may take the request, or there is no room for a program;
/// - 504 if the upstream is late;
/// - 508 for a request that has passed a server of this catalog before.
pub(crate) fn forward<'a>(
    context: &'a RequestContext<'a>,
    worker: &'a Arc<Worker>,
    to: ForwardTo<'a>,
    head: Parts,
    body: Option<Incoming>,
) -> impl Future<Output = Result<Response<Body>, StatusCode>> + Send + 'a {
    // Boxed: other answers have no room for it. Written in place: made first and then
    // boxed, its 2,900 bytes would be moved twice.
    let passed = Box::into_pin(Box::write(
        Box::new_uninit(),
        pass(context, worker, to, head, body),
    ));
    async move {
        passed.await.map_err(|failure| match to.recipient {
            Recipient::Http(upstream, _) | Recipient::Script(upstream, _) => {
                log(context, worker, upstream, &failure)
            }
            Recipient::Program(program, _) => {
                log(context, worker, &program.file().display(), &failure)
            }
        })
    }
}

/// Logs a failure of an upstream or program, and returns its status.
fn log(
    context: &RequestContext<'_>,
    worker: &Worker,
    upstream: &dyn Display,
    failure: &Failure,
) -> StatusCode {
    let (status, whose) = (failure.status(), (context.host.as_str(), context.tenant));
    let limits = &worker.upstreams.hosts.log_limits;
    match failure.hint() {
        Some(hint) => limits.upstream_failed(whose, upstream, failure, status, hint),
        None => tracing::debug!(host = whose.0, %failure, "request not passed on"),
    }
    status
}

/// Makes the body that goes to the upstream: streamed, or collected first for a script that
/// must be told its length. Returns the state of a streamed one, too. Beside the body stand
/// the fields that no client sets, and whether the client expects `100 Continue`.
async fn take_body(
    context: &RequestContext<'_>,
    worker: &Worker,
    to: ForwardTo<'_>,
    (body, (ours, expects)): (Option<Incoming>, (OurFields, bool)),
) -> Result<(Option<Arc<Exchange>>, Upload), Failure> {
    let Some(body) = body else {
        return Ok((None, Upload::default()));
    };
    let timeouts = &context.connection.timeouts;
    let (options, script) = to.recipient.options_and_script();
    let is_collected = script.is_some() && body.size_hint().exact().is_none();
    // A body that is collected waits for no upstream.
    let exchange = Arc::new(Exchange::new(expects && !is_collected, timeouts.flow()));
    let limit = RuleOptions::body_limit(to.options);
    let most = if is_collected {
        limit.min(LONGEST)
    } else {
        limit
    };
    let upload = Upload::new(body, most, ours, &exchange, timeouts);
    if !is_collected {
        return Ok((Some(exchange), upload));
    }
    let until = Instant::now() + options.timeouts.connect;
    let collecting = &worker.upstreams.collecting;
    let whose = (context.client.into(), context.tenant);
    let whole = collecting.collect(whose, until, upload, (&exchange, limit));
    // Boxed: other requests have no room for it.
    Ok((None, Box::pin(whole).await?))
}

async fn pass(
    context: &RequestContext<'_>,
    worker: &Arc<Worker>,
    to: ForwardTo<'_>,
    mut head: Parts,
    body: Option<Incoming>,
) -> Result<Response<Body>, Failure> {
    let (options, script) = to.recipient.options_and_script();
    let connect = upgrade::extended_connect(&mut head).map_err(Failure::Refused)?;
    // The stream of an extended CONNECT is no body.
    let body = body.filter(|body| connect.is_none() && !body.is_end_stream());
    // The rule may remove the cookie.
    let cookie = rendezvous::cookie_of(&options.balance, &head.headers);
    let on = (context, &*worker.upstreams);
    let outgoing = head::prepare(&mut head, body.is_some(), to, on);
    let outgoing = outgoing.map_err(Failure::Refused)?;
    let asked = outgoing.upgrade.filter(|_| script.is_none());
    if let Recipient::Http(_, path) = to.recipient {
        head::retarget(&mut head, path).map_err(Failure::Refused)?;
    } else if connect.is_some() {
        return Err(Failure::Refused(StatusCode::NOT_IMPLEMENTED));
    }
    let protocol = reach::version(options.protocol, asked.is_some());
    let protocol = protocol.map_err(Failure::Refused)?;
    let timeouts = &context.connection.timeouts;
    let at_upstream = timeouts.at_upstream();
    let ours = (outgoing.ours, outgoing.expects);
    let (exchange, upload) = take_body(context, worker, to, (body, ours)).await?;
    let (response, via) = match to.recipient {
        Recipient::Program(program, script) => {
            let request = (&head, upload);
            let run = program::run(context, worker, (program, script), request, &exchange);
            // Boxed: requests to upstreams have no room for it.
            let response = Box::pin(run).await?;
            if response.extensions().get::<LocalRedirect>().is_some() {
                return Ok(response.map(|_| Body::empty()));
            }
            (response, None)
        }
        Recipient::Http(upstream, _) | Recipient::Script(upstream, _) => {
            let sending = Sending {
                context,
                worker,
                cookie,
                upstream,
                exchange: exchange.as_ref(),
                protocol,
                upgrades: asked.is_some(),
                script,
            };
            let mut request = Some(Request::from_parts(head, upload));
            let (response, lease, chosen) = sending.send(&mut request).await?;
            (response, Some((lease, chosen)))
        }
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let asked = asked.ok_or(Failure::answer("it switched protocols unasked"))?;
        let used = via.map(|(lease, chosen)| (lease, chosen, to.in_flight.cloned()));
        let times = (options.timeouts.upgraded, at_upstream);
        let switched = switch((context, worker), (asked, connect), response, used, times);
        // Boxed: answers have no room for it.
        return Box::pin(switched).await;
    }
    if connect.is_some() && response.status().is_success() {
        return Err(Failure::answer("it did not switch to WebSocket"));
    }
    let in_flight = InFlight {
        via,
        exchange,
        at_upstream,
    };
    let host = StillServed::of(context, worker);
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let mut cx = Context::from_waker(&waker);
    answer::pass_back(&mut cx, response, &options.timeouts, in_flight, host)
}

/// Lets a request leave HTTP, as its upstream's answer says.
async fn switch(
    (context, worker): (&RequestContext<'_>, &Worker),
    (asked, connect): (HeaderValue, Option<Connect>),
    response: Response<Arriving>,
    used: Option<(Lease, Chosen, Option<Arc<RequestPermit>>)>,
    (idle, at_upstream): (Duration, AtUpstream),
) -> Result<Response<Body>, Failure> {
    let (head, body) = response.into_parts();
    let (Arriving::Http(body), Some((mut lease, chosen, in_flight))) = (body, used) else {
        return Err(Failure::answer("a script can't switch protocols"));
    };
    let leaving = Leaving {
        idle,
        held: at_upstream.timeouts.held().map(Held::of_tunnel),
        at_upstream,
        host: StillServed::of(context, worker),
        _used: (chosen, lease.permit.take(), in_flight),
    };
    let response = Response::from_parts(head, body);
    upgrade::switch(response, &asked, connect, context, leaving).await
}
