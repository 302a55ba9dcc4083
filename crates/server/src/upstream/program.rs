//! Runs a CGI program (RFC 3875) in the place of an upstream: the head of its request, its
//! body and the body of its answer take the steps of an upstream's.

use std::ffi::OsString;
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
use tokio::io::AsyncWrite as _;
use tokio::time::Instant;

use super::answer::arriving::Arriving;
use super::conversation::{Broken, Conversation, Runner, length};
use super::failure::Failure;
use super::log;
use super::parts::Worker;
use super::request::exchange::Exchange;
use super::request::params::Script;
use super::request::upload::Upload;
use super::send::head_of;
use crate::cgi::{self, Complaints, Job, Program, Running, StartError};
use crate::connection::request::RequestContext;
use crate::site::UpstreamOptions;

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
    let until = Instant::now() + UpstreamOptions::of_programs().timeouts.connect;
    let programs = &worker.upstreams.programs;
    let looked = programs.look(context.tenant, until, look).await;
    looked.map_err(|error| log(context, worker, &root, &error.into()))
}

/// Runs a program, and returns its answer.
pub(super) async fn run(
    context: &RequestContext<'_>,
    worker: &Worker,
    (program, script): (&Program, &Script<'_>),
    (head, upload): (&Parts, Upload),
    exchange: &Option<Arc<Exchange>>,
) -> Result<Response<Arriving>, Failure> {
    if let Some(exchange) = exchange {
        exchange.release();
    }
    let mut environment = vec![("PATH".into(), PATH.into())];
    let of = (&head.method, &head.headers);
    let length = length(&upload, &head.headers);
    script.params(of, length, context, |name, value| {
        let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        environment.push((text(name), text(value)));
    });
    let whose = (context.host, context.tenant);
    let log_limits = &worker.upstreams.hosts.log_limits;
    let job = Job {
        complaints: Complaints::new(log_limits, whose, &program.file().to_string_lossy()),
        program: program.clone(),
        environment,
        total: TOTAL,
    };
    let timeouts = &UpstreamOptions::of_programs().timeouts;
    let until = Instant::now() + timeouts.connect;
    let whose = (context.tenant, context.client.into());
    let started = worker.upstreams.programs.start(job, whose, until).await;
    let mut program = Box::new(started?);
    if upload.is_end_stream() {
        program.input = None;
    }
    let mut conversation = Box::new(Conversation::new(Bytes::new(), upload));
    let response = {
        let asked = pin!(conversation.ask(&mut *program, &head.method));
        let response = head_of(asked, exchange.as_ref(), timeouts.first_byte).await;
        response.ok_or(Failure::Late)?
    };
    // The client's body, or the program, is to blame.
    let response = response.map_err(|error| {
        let of_client = exchange.as_ref().and_then(|exchange| exchange.failure());
        of_client.unwrap_or_else(|| match error.downcast_ref() {
            Some(cgi::Failure::Total) => Failure::Late,
            _ => Failure::Answer(error),
        })
    })?;
    if let Some(exchange) = exchange {
        exchange.answered();
    }
    Ok(response.map(|()| Arriving::Script(conversation, Some(program))))
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
