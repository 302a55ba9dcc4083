//! Timeouts of a connection.
//!
//! The stream and the requests note events here and set no timers. The
//! connection's one timer reads the notes when it fires. Hence a request on a
//! kept-alive connection costs no timer.

mod due;
mod flow;
mod framing;
mod moment;
mod outflow;
mod upstream;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use futures_util::task::AtomicWaker;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::Instant;

use crate::limits::bodies::Held;
pub(crate) use framing::Framing;
use framing::NotedFraming;
use outflow::Outflow;

pub(crate) use due::{Due, LINGER};
pub(crate) use flow::Flow;
use moment::{Moment, Start};
pub(crate) use upstream::AtUpstream;

/// State of a connection and since when it lasts. The first row that holds
/// decides the limit:
///
/// | state | noted by | limit | then |
/// | --- | --- | --- | --- |
/// | it holds too much, and is closed | `close_if_ended` | [`LINGER`] | [`Due::Drop`] |
/// | the socket takes nothing | `blocked` | `body` | [`Due::Ask`] |
/// | our side is closed | `close` | [`LINGER`] | [`Due::Drop`] |
/// | a head has begun | `read`, `in_head` | `head` | [`Due::Drop`] |
/// | more of a body of HTTP/1.1 is wanted | [`Flow::want_body`], `read` | `body` | [`Due::Drop`] |
/// | the client sent its end, and HTTP/2 or an upstream answers | `client_ended` | `after_end` | [`Due::Drop`] |
/// | an answer is made | `begin` | none | |
/// | between two requests | `established`, `end` | `idle` | [`Due::Close`] |
///
/// In each state, a connection that winds down (`wind_down`) is also dropped
/// after `drain`. Over HTTP/1.1 a head counts only while no request is in
/// flight: the next one may be pipelined.
///
/// Relaxed ordering suffices for all fields: all tasks of a connection run on
/// its worker's thread.
#[derive(Debug, Default)]
pub(crate) struct ConnTimeouts {
    start: Start,
    in_flight: AtomicU32,
    /// Who owes the next byte of the request in flight; HTTP/1.1 only.
    flow: Arc<Flow>,
    /// Requests that an upstream answers.
    at_upstream: AtomicU32,
    /// Requests of `at_upstream` whose answers wait for more of it.
    unanswering: AtomicU32,
    /// When the client sent its end while an upstream answered, or took bytes
    /// after that.
    ended: Moment,
    /// The connection speaks HTTP/2; set once, after the handshake. The flags
    /// are independent of each other, but for `closing_soon`.
    multiplexed: AtomicBool,
    /// Session tickets wait no longer for the first answer.
    tickets_due: AtomicBool,
    /// The last answer is small and whole, and waits for close_notify. Implies
    /// `exhausted`.
    closing_soon: AtomicBool,
    /// The client sends nothing after the request in flight.
    exhausted: AtomicBool,
    /// A request has come.
    begun: AtomicBool,
    /// The body of an answer of HTTP/1.1 failed: the connection ends within it.
    cut: AtomicBool,
    framing: NotedFraming,
    idle: Moment,
    head: Moment,
    closed: Moment,
    winding_down: Moment,
    outflow: Outflow,
    /// Bytes of bodies that the connection holds; HTTP/2 only.
    held: OnceLock<Arc<Held>>,
    /// Wakes the HTTP/2 streams, which then check how long they wait.
    stream_check: Notify,
    /// Wakes the connection when its last request has ended.
    unanswered: AtomicWaker,
}

impl ConnTimeouts {
    /// Notes that the handshake is done. On a multiplexed connection, bytes
    /// between requests do not begin a head: they may be PING frames.
    pub(crate) fn established(&self, multiplexed: bool) {
        self.multiplexed.store(multiplexed, Relaxed);
        self.idle.set(self.now());
    }

    /// Returns whether the connection speaks HTTP/2.
    pub(crate) fn is_multiplexed(&self) -> bool {
        self.multiplexed.load(Relaxed)
    }

    /// Notes that the client sent bytes. On a multiplexed connection they are
    /// not progress of a request: they may be a PING frame.
    pub(crate) fn read(&self) {
        if self.multiplexed.load(Relaxed) {
            return;
        }
        if self.is_in_flight() {
            self.flow.postpone();
        } else {
            self.head.set_once(self.now());
        }
    }

    /// Notes whether a head has begun and not ended, on a multiplexed connection.
    pub(crate) fn in_head(&self, open: bool) {
        if open {
            self.head.set_once(self.now());
        } else {
            self.head.clear();
        }
    }

    /// Notes that the socket took `bytes` bytes.
    pub(crate) fn sent(&self, bytes: usize) {
        self.outflow.sent(bytes, || self.now());
        if self.ended.value().is_some() {
            self.ended.set(self.now());
        }
    }

    /// Notes that the socket is blocked. `unacknowledged` asks the kernel how
    /// many bytes the client's kernel has not acknowledged.
    pub(crate) fn blocked(&self, unacknowledged: impl FnOnce() -> u64) {
        self.outflow.blocked(self.now(), unacknowledged);
    }

    /// Makes the next blocked write measure what the client took. Returns false
    /// if the last measurement found too little.
    pub(crate) fn ask_progress(&self) -> bool {
        self.outflow.ask()
    }

    /// Returns the time in which the socket was not blocked. Data that a client
    /// does not take in that time waits for a stream's window.
    pub(crate) fn flowing(&self) -> Duration {
        Duration::from_millis(self.outflow.flowing(self.now()))
    }

    /// Returns the time since the connection was accepted.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Notes that a request's head is complete.
    pub(crate) fn begin(&self) {
        if !self.multiplexed.load(Relaxed) {
            self.head.clear();
        }
        self.closed.clear();
        self.begun.store(true, Relaxed);
        if self.in_flight.fetch_add(1, Relaxed) == 0 {
            self.outflow.begin();
        }
    }

    /// Returns what is noted of the bodies of requests. HTTP/1.1 only.
    pub(crate) fn framing(&self) -> &NotedFraming {
        &self.framing
    }

    /// Notes that an answer is complete or given up.
    pub(crate) fn end(&self) {
        if self.in_flight.fetch_sub(1, Relaxed) == 1 {
            self.idle.set(self.now());
            if self.ended.value().is_some() {
                self.unanswered.wake();
            }
        }
    }

    /// Registers a waker for the end of the last request in flight.
    pub(crate) fn wake_at_end(&self, waker: &Waker) {
        self.unanswered.register(waker);
    }

    /// Returns whether a request is in flight.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.load(Relaxed) > 0
    }

    /// Notes that nothing follows this answer on the connection. A `small` one that is
    /// whole in memory may wait to be sent with close_notify.
    pub(crate) fn last(&self, small: bool) {
        self.exhausted.store(true, Relaxed);
        self.closing_soon.store(small, Relaxed);
    }

    pub(crate) fn is_closing_soon(&self) -> bool {
        self.closing_soon.load(Relaxed)
    }

    /// Returns whether the client sends nothing more.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Relaxed)
    }

    /// Notes that the body of an answer failed. Over HTTP/2 its stream is reset, and the
    /// connection goes on.
    pub(crate) fn cut_off(&self) {
        if !self.multiplexed.load(Relaxed) {
            self.cut.store(true, Relaxed);
        }
    }

    /// Returns whether the connection ends within an answer.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_in_flight() || self.cut.load(Relaxed)
    }

    /// Ends the wait of session tickets for the first answer.
    pub(crate) fn flush_tickets(&self) {
        self.tickets_due.store(true, Relaxed);
    }

    pub(crate) fn are_tickets_due(&self) -> bool {
        self.tickets_due.load(Relaxed)
    }

    /// Returns whether a request has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.load(Relaxed)
    }

    /// Ends the connection after the requests in flight.
    pub(crate) fn wind_down(&self) {
        self.winding_down.set_once(self.now());
    }

    pub(crate) fn is_winding_down(&self) -> bool {
        self.winding_down.value().is_some()
    }

    /// Notes that our side is being closed.
    pub(crate) fn close(&self) {
        self.closed.set_once(self.now());
    }

    /// Notes where the bytes of bodies are counted, once.
    pub(crate) fn hold(&self, held: Arc<Held>) {
        let _ = self.held.set(held);
    }

    /// Returns the count of the bytes of bodies; none over HTTP/1.1.
    pub(crate) fn held(&self) -> Option<&Arc<Held>> {
        self.held.get()
    }

    /// Notes that bytes of a request's body were taken.
    pub(crate) fn taken(&self, bytes: usize) {
        if let Some(held) = self.held() {
            held.taken(bytes);
        }
    }

    /// Notes that our side is being closed, if the connection was chosen to end since it
    /// holds too much.
    pub(crate) fn close_if_ended(&self) {
        if self.held().is_some_and(|held| held.has_ended()) {
            self.close();
        }
    }

    /// Returns the flow of the request that this task serves.
    pub(crate) fn flow(&self) -> Arc<Flow> {
        Flow::of_stream().unwrap_or_else(|| Arc::clone(&self.flow))
    }

    /// Resolves with the next call of [`Self::check_streams`].
    pub(crate) fn stream_check(&self) -> Notified<'_> {
        self.stream_check.notified()
    }

    /// Makes each stream of HTTP/2 check how long it waits.
    pub(crate) fn check_streams(&self) {
        self.stream_check.notify_waiters();
    }

    /// Returns whether there are HTTP/2 streams to check.
    pub(crate) fn has_streams(&self) -> bool {
        self.multiplexed.load(Relaxed) && self.is_in_flight()
    }

    fn at(&self, moment: u64, limit: Duration) -> Instant {
        self.start.at(moment) + limit
    }

    /// Returns milliseconds since the connection was accepted.
    fn now(&self) -> u64 {
        self.start.now()
    }
}

#[cfg(test)]
mod tests;
