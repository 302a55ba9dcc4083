//! Runs a CGI program (RFC 3875) in the place of an upstream: the head of its request, its
//! body and the body of its answer take the steps of an upstream's.

mod conversation;

use std::ffi::OsString;
use std::future::poll_fn;
use std::os::unix::ffi::OsStringExt as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HeaderMap};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::answer::arriving::Arriving;
use super::answer::still_served::StillServed;
use super::answer::{self, InFlight, upgrade};
use super::connections::fastcgi::head::local_redirect;
use super::failure::Failure;
use super::parts::Worker;
use super::request::exchange::{Exchange, FAILED, TOO_LARGE};
use super::request::head;
use super::request::params::Script;
use super::request::upload::Upload;
use super::send::head_of;
use super::{Towards, take_body};
use crate::cgi::{self, Environment, Limits, Program, StartError};
use crate::connection::request::RequestContext;
use crate::site::body::Body;
use crate::site::{RuleOptions, Scheme, UpstreamOptions, UpstreamTimeouts};
pub(in crate::upstream) use conversation::{Broken, Conversation};

/// Program that answers a request.
pub(crate) struct ProgramTo<'a> {
    pub(crate) program: Program,
    pub(crate) script: &'a Script<'a>,
    /// Options of the rule.
    pub(crate) options: Option<&'a RuleOptions>,
}

/// Result of a program.
pub(crate) enum Ran {
    Answer(Response<Body>),
    /// The server answers in its place, from this path and query (RFC 3875, section 6.2.2).
    Elsewhere(String),
}

/// Runs a program, and passes its answer back.
///
/// # Errors
/// The status of our own answer: those of [`forward`](super::forward) for the request and its
/// body, 503 if the program can't start for lack of room, 504 if it sends no head in time,
/// else 502.
pub(crate) async fn run(
    context: &RequestContext<'_>,
    worker: &Arc<Worker>,
    to: ProgramTo<'_>,
    head: Parts,
    body: Option<Incoming>,
) -> Result<Ran, StatusCode> {
    let file = to.program.file().display().to_string();
    let ran = pass(context, worker, to, head, body).await;
    ran.map_err(|failure| log(context, worker, &file, &failure))
}

/// Looks for a program on a thread for blocking calls.
///
/// # Errors
/// 503 if there is no room, or the file system hangs.
pub(crate) async fn look<T: Send + 'static>(
    context: &RequestContext<'_>,
    worker: &Worker,
    root: &str,
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, StatusCode> {
    let until = Instant::now() + UpstreamTimeouts::DEFAULT.connect;
    let programs = &worker.upstreams.programs;
    let looked = programs.look(context.tenant, until, look).await;
    looked.map_err(|error| log(context, worker, root, &error.into()))
}

/// Logs a failure, and returns its status.
fn log(context: &RequestContext<'_>, worker: &Worker, what: &str, failure: &Failure) -> StatusCode {
    let (status, whose) = (failure.status(), (context.host.as_str(), context.tenant));
    let limits = &worker.upstreams.hosts.log_limits;
    match failure.hint() {
        Some(hint) => limits.upstream_failed(whose, &what, failure, status, hint),
        None => tracing::debug!(host = whose.0, %failure, "program not run"),
    }
    status
}

async fn pass(
    context: &RequestContext<'_>,
    worker: &Arc<Worker>,
    to: ProgramTo<'_>,
    mut head: Parts,
    body: Option<Incoming>,
) -> Result<Ran, Failure> {
    let connect = upgrade::extended_connect(&mut head).map_err(Failure::Refused)?;
    if connect.is_some() {
        return Err(Failure::Refused(StatusCode::NOT_IMPLEMENTED));
    }
    let towards = Towards {
        options: UpstreamOptions::of_scheme(Scheme::FastCgi),
        rule: to.options,
        is_script: true,
    };
    let body = body.filter(|body| !body.is_end_stream());
    let outgoing = head::prepare(
        &mut head,
        body.is_some(),
        towards,
        (context, &worker.upstreams),
    );
    let outgoing = outgoing.map_err(Failure::Refused)?;
    // From now on a client that leaves ends its request, before the head of the answer, too.
    let at_upstream = context.connection.timeouts.at_upstream();
    let body = (body, (outgoing.ours, outgoing.expects));
    let (exchange, upload) = take_body(context, worker, towards, body).await?;
    if let Some(exchange) = &exchange {
        exchange.release();
    }
    let environment = environment(&to, &head, &upload, context);
    let until = Instant::now() + towards.options.timeouts.connect;
    let whose = (context.host.as_str(), context.tenant, context.client.into());
    let programs = &worker.upstreams.programs;
    let running = programs.start(to.program, environment, whose, LIMITS, until);
    let mut conversation = Box::new(Conversation::new(running.await?, upload));
    let response = {
        let asked = pin!(conversation.head());
        let response = head_of(asked, exchange.as_ref(), LIMITS.first_byte).await;
        let answered = response.ok_or(Failure::Late)?;
        answered.map_err(|error| failure(error, exchange.as_deref()))?
    };
    if let Some(target) = local_redirect(&response) {
        return Ok(Ran::Elsewhere(target));
    }
    if let Some(exchange) = &exchange {
        exchange.answered();
    }
    let response = Arriving::of_program(response, &head.method, conversation)?;
    let in_flight = InFlight {
        via: None,
        exchange,
        at_upstream,
    };
    let host = StillServed::of(context, worker);
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let mut cx = Context::from_waker(&waker);
    let answer = answer::pass_back(&mut cx, response, &TIMEOUTS, in_flight, host);
    answer.map(Ran::Answer)
}

/// Tells whose fault it is that there is no head: the client's, by its body, or the program's.
fn failure(error: Broken, exchange: Option<&Exchange>) -> Failure {
    use cgi::Failure::{FirstByte, Total};
    let is = |flag| exchange.is_some_and(|exchange| exchange.is(flag));
    match error.downcast_ref() {
        _ if is(TOO_LARGE) => Failure::TooLarge,
        _ if is(FAILED) => Failure::Client,
        Some(FirstByte | Total) => Failure::Late,
        _ => Failure::Answer(error),
    }
}

/// Makes the whole environment of a program: nothing of the server's, which may hold secrets.
fn environment(
    to: &ProgramTo<'_>,
    head: &Parts,
    upload: &Upload,
    context: &RequestContext<'_>,
) -> Environment {
    let length = length(upload, &head.headers);
    let mut environment = vec![("PATH".into(), PATH.into())];
    let of = (&head.method, &head.headers);
    to.script.params(of, length, context, |name, value| {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        environment.push((text(name), text(value)));
    });
    environment
}

/// Returns the length that a script is told: none without a body, unless one may be expected.
pub(in crate::upstream) fn length(upload: &Upload, fields: &HeaderMap) -> Option<u64> {
    let length = upload
        .size_hint()
        .exact()
        .filter(|_| !upload.is_end_stream());
    length.or(fields.contains_key(CONTENT_LENGTH).then_some(0))
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Full | StartError::TenantBusy | StartError::Late => {
                Self::NoRoom(error.to_string())
            }
            StartError::System(..) => Self::Answer(error.into()),
        }
    }
}

/// Folders of the programs that a CGI program calls by name.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longest waits for a program.
const LIMITS: Limits = Limits {
    first_byte: Duration::from_mins(1),
    idle: Duration::from_mins(1),
    total: Duration::from_mins(10),
};

const TIMEOUTS: UpstreamTimeouts = UpstreamTimeouts {
    upgraded: UpstreamTimeouts::DEFAULT.idle,
    ..UpstreamTimeouts::DEFAULT
};
