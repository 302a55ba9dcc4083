//! Runs a CGI program (RFC 3875) in the place of an upstream: the head of its request, its
//! body and the body of its answer take the steps of an upstream's.

use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::Body as _;
use hyper::body::Incoming;
use tokio::io::AsyncWrite as _;
use tokio::time::Instant;

use super::answer::arriving::Arriving;
use super::answer::still_served::StillServed;
use super::answer::{self, InFlight, upgrade};
use super::conversation::head::local_redirect;
use super::conversation::{Broken, Conversation, Runner, length};
use super::failure::Failure;
use super::parts::Worker;
use super::request::exchange::{Exchange, FAILED, TOO_LARGE};
use super::request::head;
use super::request::params::Script;
use super::send::head_of;
use super::{Towards, log, take_body};
use crate::cgi::{self, Complaints, Job, Program, Running, StartError};
use crate::connection::request::RequestContext;
use crate::site::body::Body;
use crate::site::{RuleOptions, Scheme, UpstreamOptions, UpstreamTimeouts};

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
    looked.map_err(|error| log(context, worker, &root, &error.into()))
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
    let mut environment = vec![("PATH".into(), PATH.into())];
    let of = (&head.method, &head.headers);
    let length = length(&upload, &head.headers);
    to.script.params(of, length, context, |name, value| {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        environment.push((text(name), text(value)));
    });
    let whose = (context.host, context.tenant);
    let log_limits = &worker.upstreams.hosts.log_limits;
    let job = Job {
        complaints: Complaints::new(log_limits, whose, &to.program.file().to_string_lossy()),
        program: to.program,
        environment,
        total: TOTAL,
    };
    let until = Instant::now() + towards.options.timeouts.connect;
    let whose = (context.tenant, context.client.into());
    let started = worker.upstreams.programs.start(job, whose, until).await;
    let mut program = Box::new(started?);
    if upload.is_end_stream() {
        program.input = None;
    }
    let mut conversation = Box::new(Conversation::new(Bytes::new(), upload));
    let response = {
        let asked = pin!(conversation.ask(&mut *program, &head.method));
        let response = head_of(asked, exchange.as_ref(), TIMEOUTS.first_byte).await;
        let answered = response.ok_or(Failure::Late)?;
        answered.map_err(|error| failure(error, exchange.as_deref()))?
    };
    if let Some(target) = local_redirect(&response) {
        return Ok(Ran::Elsewhere(target));
    }
    if let Some(exchange) = &exchange {
        exchange.answered();
    }
    let response = response.map(|()| Arriving::Script(conversation, Some(program)));
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
    let is = |flag| exchange.is_some_and(|exchange| exchange.is(flag));
    match error.downcast_ref() {
        _ if is(TOO_LARGE) => Failure::TooLarge,
        _ if is(FAILED) => Failure::Client,
        Some(cgi::Failure::Total) => Failure::Late,
        _ => Failure::Answer(error),
    }
}

impl Runner for Running {
    fn frame(&mut self, piece: Bytes) -> Bytes {
        if piece.is_empty() {
            self.input = None;
        }
        piece
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.input {
            Some(input) => Pin::new(input).poll_write(cx, bytes),
            None => Poll::Ready(Ok(0)),
        }
    }

    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Broken>> {
        Self::poll_output(self, cx).map_err(Broken::from)
    }
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

/// Folders of the programs that a CGI program calls by name. Its environment has nothing of the
/// server's, which may hold secrets.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longest time of a program, from its start to its end.
const TOTAL: Duration = Duration::from_mins(10);

/// Longest waits for a program's answer.
const TIMEOUTS: UpstreamTimeouts = UpstreamTimeouts {
    upgraded: UpstreamTimeouts::DEFAULT.idle,
    ..UpstreamTimeouts::DEFAULT
};
