//! Sends a request to one of an upstream's servers, and awaits the head of its
//! answer.

mod copied;
mod run;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use sekisho_certs::clock;
use tokio::time::{Instant, timeout, timeout_at};

use super::answer::arriving::Arriving;
use super::connections::lease::Lease;
use super::connections::pool::Opened;
use super::conversation::Broken;
use super::failure::Failure;
use super::parts::Worker;
use super::request::exchange::{Exchange, HELD};
use super::request::head;
use super::request::params::Script;
use super::request::upload::Upload;
use super::servers::Affinity;
use super::servers::chosen::Chosen;
use crate::connection::request::RequestContext;
use crate::observe::metrics::UpstreamResult;
use crate::site::{Protocol, Upstream};
use copied::Copied;

/// Request on its way to an upstream.
pub(super) struct Sending<'a> {
    pub(super) context: &'a RequestContext<'a>,
    pub(super) worker: &'a Arc<Worker>,
    pub(super) upstream: &'a Arc<Upstream>,
    /// State of the body; none without one.
    pub(super) exchange: Option<&'a Arc<Exchange>>,
    /// Hash of the cookie that a server is chosen by.
    pub(super) cookie: Option<u64>,
    /// Version of HTTP to speak.
    pub(super) protocol: Protocol,
    /// Whether the request may leave HTTP, which needs HTTP/1.1.
    pub(super) upgrades: bool,
    /// Script that a FastCGI server runs.
    pub(super) script: Option<&'a Script<'a>>,
}

/// Request that is to be sent; none while a connection has it. Steps borrow it: each
/// would else move its 232 bytes.
type Unsent = Option<Request<Upload>>;

/// Result of sending a request over one connection.
enum Sent {
    Answered(Response<Arriving>),
    /// Nothing was sent: the connection had just ended.
    Unsent,
    /// The connection ended after the request, without a byte of an answer.
    Unanswered(Failure),
}

/// Failure to send a request to one server.
enum Undelivered {
    /// The old connection ended and no new one came about, or the server did not begin it:
    /// another server may get it.
    Elsewhere(Failure),
    /// A server may have acted on it: no other may get it.
    Nowhere(Failure),
}

impl Sending<'_> {
    /// Sends the request:
    ///
    /// 1. chooses a server that was not tried;
    /// 2. takes a connection to it, or opens one; if that fails, goes on with 1;
    /// 3. sends the request, and awaits the head of the answer;
    /// 4. repeats 3 over a new connection to the same server if the old one had ended before the
    ///    request, or before a byte of the answer where the request changes
    ///    nothing and has no body; if no new one comes about, goes on with 1, as it does for a
    ///    FastCGI server that is overloaded, if the request has no body.
    ///
    /// No other server is tried once `timeouts.connect` has passed twice: 32 servers that do
    /// not answer would hold the request for 32 times as long.
    ///
    /// Returns the head of the answer, and the connection and server that its body comes
    /// from.
    pub(super) async fn send(
        &self,
        request: &mut Unsent,
    ) -> Result<(Response<Arriving>, Lease, Chosen), Failure> {
        let mut tried = Vec::new();
        let mut is_repeated = false;
        let limit = 2 * self.upstream.options().timeouts.connect;
        let mut now = clock::monotonic();
        let mut last = now + limit;
        loop {
            let mut chosen = self.choose(&tried, now)?;
            let (failure, is_granted) = match self.connect(&chosen, false, now).await {
                Ok(lease) => {
                    let attempt = self.send_to(&mut chosen, lease, request, &mut is_repeated);
                    match attempt.await {
                        Ok((response, lease)) => return Ok((response, lease, chosen)),
                        Err(Undelivered::Nowhere(failure)) => return Err(failure),
                        Err(Undelivered::Elsewhere(failure)) => {
                            let is_granted = !matches!(failure, Failure::Overloaded);
                            if is_granted {
                                // The wait for the answer was none for a connection.
                                last = Instant::now() + limit;
                            }
                            (failure, is_granted)
                        }
                    }
                }
                Err(failure) => (failure, false),
            };
            if failure.is_of_connecting() {
                chosen.failed(UpstreamResult::Unreachable);
            } else if failure.is_on_our_side() {
                chosen.count(UpstreamResult::Refused);
            }
            tried.push(chosen.index);
            now = Instant::now();
            let has_others = tried.len() < self.upstream.servers.len() && now < last;
            if !has_others || failure.is_busy() || !(is_granted || chosen.may_retry()) {
                return Err(failure);
            }
        }
    }

    /// Sends the request to the server that was chosen. Sets `is_repeated` once the
    /// request is to be sent a second time, which happens once.
    async fn send_to(
        &self,
        chosen: &mut Chosen,
        mut lease: Lease,
        request: &mut Unsent,
        is_repeated: &mut bool,
    ) -> Result<(Response<Arriving>, Lease), Undelivered> {
        loop {
            let may_repeat = lease.is_reused && !*is_repeated;
            let copied = request
                .as_ref()
                .filter(|it| may_repeat && self.is_repeatable(it));
            let copy = copied.map(Copied::of);
            match self.exchange(&mut lease, request).await {
                Ok(Sent::Answered(response)) => {
                    chosen.answered(response.status());
                    return Ok((response, lease));
                }
                Ok(Sent::Unsent) => {}
                Ok(Sent::Unanswered(failure)) => match copy {
                    Some(copy) if chosen.may_retry() => {
                        *is_repeated = true;
                        *request = Some(copy.into());
                    }
                    _ => return Err(Undelivered::Nowhere(failure)),
                },
                Err(Failure::Overloaded) if request.is_some() => {
                    return Err(Undelivered::Elsewhere(Failure::Overloaded));
                }
                Err(failure) => {
                    if failure.is_of_server() {
                        match lease.blames_server() {
                            true => chosen.failed(UpstreamResult::NoAnswer),
                            // Noted before, by another request.
                            false => chosen.count(UpstreamResult::NoAnswer),
                        }
                    }
                    return Err(Undelivered::Nowhere(failure));
                }
            }
            // Gives the permit of the old connection back, which the new one may need.
            drop(lease);
            // A new connection gives an answer or a failure: the loop ends.
            match self.connect(chosen, true, Instant::now()).await {
                Ok(fresh) => lease = fresh,
                Err(failure) => return Err(Undelivered::Elsewhere(failure)),
            }
        }
    }

    /// Returns whether the request may be sent again although the upstream may
    /// have got it.
    fn is_repeatable(&self, request: &Request<Upload>) -> bool {
        let safe = matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        );
        safe && self.exchange.is_none() && request.body().is_end_stream() && !self.upgrades
    }

    /// Sends the request over one connection.
    async fn exchange(&self, lease: &mut Lease, unsent: &mut Unsent) -> Result<Sent, Failure> {
        let is_http2 = matches!(lease.connection, Some(Opened::Http2(_)));
        let mut request = unsent.take().expect("no connection has the request");
        if is_http2 != (request.version() == Version::HTTP_2) {
            let (mut parts, body) = request.into_parts();
            match is_http2 {
                true => head::for_http2(&mut parts, lease.key.tls != 0),
                false => head::for_http1(&mut parts, self.exchange.is_some()),
            }
            .map_err(Failure::Refused)?;
            request = Request::from_parts(parts, body);
        }
        if let Some(exchange) = self.exchange.filter(|exchange| exchange.is(HELD)) {
            if is_http2 || self.script.is_some() {
                exchange.release();
            } else {
                let exchange = Arc::clone(exchange);
                hyper::ext::on_informational(&mut request, move |answer| {
                    if answer.status() == StatusCode::CONTINUE {
                        exchange.release();
                    }
                });
            }
        }
        if let Some(exchange) = self.exchange {
            lease.watch(exchange);
        }
        let limit = self.upstream.options().timeouts.first_byte;
        let sent = match &mut lease.connection {
            Some(Opened::Http1(connection)) if self.exchange.is_none() => {
                let answered = connection.ask(request, clock::monotonic() + limit).await;
                answered.map(arriving)
            }
            Some(Opened::Http1(connection)) => {
                let response = pin!(connection.sender.try_send_request(request));
                head_of(response, self.exchange, limit).await.map(arriving)
            }
            Some(Opened::Http2(shared)) => {
                let response = pin!(shared.sender.try_send_request(request));
                head_of(response, self.exchange, limit).await.map(arriving)
            }
            Some(Opened::FastCgi(connection)) => {
                let keep = self.upstream.options().keep > 0;
                let asked = pin!(self.run(connection, keep, request));
                // Boxed: other requests have no room for it.
                Box::pin(head_of(asked, self.exchange, limit)).await
            }
            None => unreachable!("a lease is released after the answer"),
        };
        match sent {
            None => Err(Failure::Late),
            Some(Ok(response)) => {
                if let Some(exchange) = self.exchange {
                    exchange.answered();
                }
                Ok(Sent::Answered(response))
            }
            Some(Err(Unanswered { error, request })) => {
                *unsent = request.map(|request| *request);
                // A new connection that ends at once would do so again.
                match unsent.is_some() && lease.is_reused && !is_refusal(&error) {
                    true => Ok(Sent::Unsent),
                    false => self.failed(error, lease),
                }
            }
        }
    }

    /// Tells whose fault an error is.
    fn failed(&self, error: Broken, lease: &Lease) -> Result<Sent, Failure> {
        if let Some(failure) = self.exchange.and_then(|exchange| exchange.failure()) {
            return Err(failure);
        }
        if let Some(flood) = lease.flood() {
            // The server would do so again: the request is not repeated.
            return Err(Failure::answer(flood));
        }
        if is_refusal(&error) {
            return Err(Failure::Overloaded);
        }
        let failure = Failure::Answer(error);
        match lease.is_reused && lease.ended_unanswered() {
            true => Ok(Sent::Unanswered(failure)),
            false => Err(failure),
        }
    }

    fn choose(&self, tried: &[usize], now: Instant) -> Result<Chosen, Failure> {
        let by = Affinity {
            client: self.context.client,
            cookie: self.cookie,
            host: self.context.host,
            tenant: self.context.tenant,
            now,
        };
        let servers = &self.worker.upstreams.servers;
        servers.choose(self.upstream, &by, tried)
    }
}

/// Request that got no answer.
struct Unanswered {
    error: Broken,
    /// The request, if nothing of it was sent, or no script has begun it.
    request: Option<Box<Request<Upload>>>,
}

/// Returns whether a FastCGI server has refused to begin the request.
fn is_refusal(error: &Broken) -> bool {
    matches!(error.downcast_ref(), Some(Failure::Overloaded))
}

/// Makes an answer of HTTP one of any protocol.
fn arriving(
    answered: Result<Response<Incoming>, TrySendError<Request<Upload>>>,
) -> Result<Response<Arriving>, Unanswered> {
    match answered {
        Ok(response) => Ok(response.map(Arriving::Http)),
        Err(mut error) => Err(Unanswered {
            request: error.take_message().map(Box::new),
            error: error.into_error().into(),
        }),
    }
}

/// Awaits the head of an answer for `limit`, counted anew while the body moves.
/// Returns none if the head is late.
pub(super) async fn head_of<F: Future>(
    mut response: Pin<&mut F>,
    exchange: Option<&Arc<Exchange>>,
    limit: Duration,
) -> Option<F::Output> {
    let Some(exchange) = exchange else {
        return timeout(limit, response).await.ok();
    };
    if exchange.is(HELD) {
        // Not every server knows `Expect` (RFC 9110, section 10.1.1).
        if let Ok(response) = timeout(CONTINUE_WAIT, &mut response).await {
            return Some(response);
        }
        exchange.release();
    }
    loop {
        let due = exchange.flow.body_passed_at() + limit;
        if let Ok(response) = timeout_at(due, &mut response).await {
            return Some(response);
        }
        if exchange.flow.body_passed_at() + limit <= Instant::now() {
            return None;
        }
    }
}

/// How long a body waits for `100 Continue`.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);
