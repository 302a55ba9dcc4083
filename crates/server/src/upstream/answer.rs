//! Answer of an upstream on its way back: head changed in place, body streamed.

pub(in crate::upstream) mod arriving;
mod drain;
pub(in crate::upstream) mod still_served;
pub(in crate::upstream) mod tunnel;
pub(in crate::upstream) mod upgrade;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, TRANSFER_ENCODING};
use http::{Response, Version};
use http_body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::lease::Lease;
use super::connections::pool::KEEP;
use super::failure::Failure;
use super::request::exchange::{Exchange, SENT};
use super::request::fields;
use super::servers::chosen::Chosen;
use crate::coding::is_of_type;
use crate::connection::request::framing;
use crate::limits::timeouts::AtUpstream;
use crate::site::UpstreamTimeouts;
use crate::site::body::Body;
use arriving::Arriving;
use still_served::{LongLived, StillServed};

/// Parts of a request in flight, which the end of its answer ends.
pub(super) struct InFlight {
    /// Connection and server that the answer comes from; none if it is a program's.
    pub(super) via: Option<(Lease, Chosen)>,
    pub(super) exchange: Option<Arc<Exchange>>,
    pub(super) at_upstream: AtUpstream,
}

/// Turns an upstream's answer into ours, for the task of `cx`.
///
/// # Errors
/// If its framing is ambiguous, or it ended before its body began.
pub(super) fn pass_back(
    cx: &mut Context<'_>,
    mut response: Response<Arriving>,
    timeouts: &UpstreamTimeouts,
    in_flight: InFlight,
    host: Option<StillServed>,
) -> Result<Response<Body>, Failure> {
    let keep = connection_fields(response.headers_mut())?.min(timeouts.idle);
    let idle = match is_of_type(response.headers(), &["text/event-stream"]) {
        true => timeouts.upgraded,
        false => timeouts.idle,
    };
    *response.version_mut() = Version::HTTP_11;
    let (head, body) = response.into_parts();
    let passed = Passed {
        body,
        ahead: [const { None }; 2],
        broken: None,
        in_flight: Some(in_flight),
        idle,
        keep,
        timer: None,
        host: LongLived::new(host),
    };
    Ok(Response::from_parts(head, passed.into_body(cx)?))
}

/// Removes fields of the upstream's connection, and returns how long that may be kept.
///
/// # Errors
/// If the answer's framing is ambiguous, or `Connection` names too many fields.
fn connection_fields(fields: &mut HeaderMap) -> Result<Duration, Failure> {
    // hyper takes lists of equal lengths and would pass them on; other clients do not
    // (RFC 9110, section 8.6).
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
    if let Some(length) = lengths.next()
        && (lengths.next().is_some() || length.as_bytes().contains(&b','))
    {
        return Err(Failure::answer("it gives its length more than once"));
    }
    // One pass over the names costs less than a search for each of these.
    if !fields
        .keys()
        .any(|name| fields::is_hop_by_hop(name.as_str()))
    {
        return Ok(KEEP);
    }
    if fields.contains_key(TRANSFER_ENCODING) && fields.contains_key(CONTENT_LENGTH) {
        return Err(Failure::answer("it has two lengths"));
    }
    // hyper decodes chunked alone: the client would get other codings unnamed.
    if framing::check(fields, false).is_err() {
        return Err(Failure::answer(
            "it has a transfer coding other than chunked",
        ));
    }
    let keep = keep(fields);
    clean(fields)?;
    Ok(keep)
}

/// Removes fields of the upstream's connection.
///
/// # Errors
/// If `Connection` names too many fields.
pub(super) fn clean(fields: &mut HeaderMap) -> Result<(), Failure> {
    let named = match fields.contains_key(CONNECTION) {
        true => fields::named_in_connection(fields).ok_or(Failure::answer(
            "its Connection field names too many fields",
        ))?,
        false => Vec::new(),
    };
    fields::remove(fields, |name| {
        fields::is_hop_by_hop(name.as_str()) || named.contains(name)
    });
    Ok(())
}

/// Returns how long the connection may be kept: a second less than the server
/// says, which otherwise closes it while our next request is on its way.
fn keep(fields: &HeaderMap) -> Duration {
    let Some(value) = fields.get(KEEP_ALIVE).and_then(|value| value.to_str().ok()) else {
        return KEEP;
    };
    let timeout = value
        .split(',')
        .find_map(|part| part.trim().strip_prefix("timeout="));
    match timeout.and_then(|seconds| seconds.parse().ok()) {
        Some(seconds) => Duration::from_secs(seconds)
            .saturating_sub(Duration::from_secs(1))
            .min(KEEP),
        None => KEEP,
    }
}

/// Body of an answer. Dropping it ends the request at the upstream.
struct Passed {
    body: Arriving,
    /// Frames that came with the head.
    ahead: [Option<Frame<Bytes>>; 2],
    /// Error behind those frames.
    broken: Option<io::Error>,
    /// None once the answer is complete.
    in_flight: Option<InFlight>,
    /// Longest time without progress.
    idle: Duration,
    /// How long the connection is kept afterwards.
    keep: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    host: LongLived,
}

impl Passed {
    /// Makes the response's body: in one piece if it came with the head.
    fn into_body(mut self, cx: &mut Context<'_>) -> Result<Body, Failure> {
        if self.body.is_end_stream() {
            self.finish();
            return Ok(Body::empty());
        }
        self.look_ahead(cx);
        match (&mut self.ahead, self.broken.take()) {
            ([None, _], Some(error)) => return Err(Failure::Answer(error.into())),
            ([None, _], None) if self.in_flight.is_none() => return Ok(Body::empty()),
            ([Some(frame), None], None) if self.in_flight.is_none() => {
                if let Some(data) = frame.data_mut() {
                    return Ok(Body::from(std::mem::take(data)));
                }
            }
            (_, broken) => self.broken = broken,
        }
        Ok(Body::passing(self))
    }

    /// Takes what has come of the body.
    fn look_ahead(&mut self, cx: &mut Context<'_>) {
        for place in 0..self.ahead.len() {
            match self.poll_body(cx) {
                Poll::Ready(Some(Ok(frame))) if frame.is_trailers() => {
                    self.ahead[place] = Some(clean_frame(frame));
                    return self.finish();
                }
                Poll::Ready(Some(Ok(frame))) => self.ahead[place] = Some(frame),
                Poll::Ready(None) => return self.finish(),
                Poll::Ready(Some(Err(error))) => {
                    self.broken = Some(error);
                    self.break_off();
                    return;
                }
                Poll::Pending => return,
            }
            if self.body.is_end_stream() {
                return self.finish();
            }
        }
    }

    /// Takes a frame of the body.
    fn poll_body(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let body = &mut self.body;
        let via = self.in_flight.as_mut().and_then(|it| it.via.as_mut());
        let lease = via.map(|(lease, _)| lease);
        let mut frame = body.poll_frame(cx, lease);
        let in_flight = self.in_flight.as_ref();
        // Counts the bytes that the client has not taken, over HTTP/2.
        if let Some(held) = in_flight.and_then(|it| it.at_upstream.timeouts.held())
            && let Poll::Ready(Some(Ok(frame))) = &mut frame
            && let Some(data) = frame.data_mut()
        {
            *data = held.count_piece(std::mem::take(data), body.is_end_stream());
        }
        frame
    }

    /// Ends the request with its complete answer. A connection whose request was
    /// not sent whole is not used again.
    fn finish(&mut self) {
        let Some(in_flight) = &mut self.in_flight else {
            return;
        };
        let is_sent = in_flight.exchange.as_ref().is_none_or(|it| it.is(SENT));
        let is_sent = is_sent && !self.body.is_owed();
        if let (true, Some((lease, chosen))) = (is_sent, &mut in_flight.via) {
            lease.release(self.keep, &chosen.server.kept);
        }
        self.in_flight = None;
    }

    /// Ends the request with an incomplete answer. A flood is the server's failure, an
    /// answer that breaks off is the client's to judge.
    fn break_off(&mut self) {
        if let Some((lease, chosen)) = self.in_flight.take().and_then(|mut it| it.via.take())
            && lease.flood().is_some()
            && lease.blames_server()
        {
            chosen.server.failed();
        }
    }

    /// Returns an error once nothing has moved for the idle limit.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let Some(in_flight) = &self.in_flight else {
            return Poll::Pending;
        };
        in_flight.at_upstream.wait(true);
        let since = in_flight.at_upstream.flow.upstream_owes_answer();
        let since = since.unwrap_or_else(Instant::now);
        let due = |since: Instant| {
            let exchange = in_flight.exchange.as_ref();
            let passed = exchange.map(|exchange| exchange.flow.body_passed_at());
            passed.map_or(since, |passed| passed.max(since)) + self.idle
        };
        // Once earlier: a silent answer is polled no more until then.
        let first = self.host.begins();
        let first = first.map_or(due(since), |begins| due(since).min(begins));
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(first)));
        loop {
            ready!(timer.as_mut().poll(cx));
            let due = due(since);
            if due <= Instant::now() {
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            timer.as_mut().reset(due);
        }
    }
}

impl http_body::Body for Passed {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = &mut *self;
        if let Some(frame) = this.ahead.iter_mut().find_map(Option::take) {
            return Poll::Ready(Some(Ok(frame)));
        }
        if let Some(error) = this.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if let Poll::Ready(why) = this.host.poll(cx) {
            tracing::debug!(why, "answer of an upstream ended");
            this.in_flight = None;
            return Poll::Ready(Some(Err(io::Error::other(why))));
        }
        match this.poll_body(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(in_flight) = &this.in_flight {
                    in_flight.at_upstream.wait(false);
                }
                // hyper polls no further behind trailers or the end.
                if frame.is_trailers() || this.body.is_end_stream() {
                    this.finish();
                }
                Poll::Ready(Some(Ok(clean_frame(frame))))
            }
            Poll::Ready(Some(Err(error))) => {
                this.break_off();
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                this.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                let error = ready!(this.poll_idle(cx));
                tracing::debug!("upstream made no progress with its answer");
                this.in_flight = None;
                Poll::Ready(Some(Err(error)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        // A client does not wait for what a script does behind its answer.
        let is_over = self.body.is_end_stream() || self.body.is_delivered();
        self.broken.is_none() && self.ahead.iter().all(Option::is_none) && is_over
    }

    fn size_hint(&self) -> SizeHint {
        let ahead = self.ahead.iter().flatten().filter_map(Frame::data_ref);
        let ahead: u64 = ahead.map(|data| data.len() as u64).sum();
        match self.body.size_hint().exact() {
            Some(rest) => SizeHint::with_exact(rest + ahead),
            None => SizeHint::default(),
        }
    }
}

/// Removes trailers that belong to the head.
fn clean_frame(mut frame: Frame<Bytes>) -> Frame<Bytes> {
    if let Some(trailers) = frame.trailers_mut() {
        fields::clean_trailers(trailers, |_| false);
    }
    frame
}

impl Drop for Passed {
    fn drop(&mut self) {
        // hyper takes no more of a body than its length.
        if self.body.is_delivered()
            && let Some(mut in_flight) = self.in_flight.take()
        {
            let body = std::mem::replace(&mut self.body, Arriving::Nothing);
            drain::drain(body, in_flight.via.take(), self.keep);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(exchange) = &self.exchange
            && !exchange.is(SENT)
        {
            exchange.close();
        }
    }
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
