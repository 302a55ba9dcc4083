//! Drives a connection, with one timer for all of its limits.

use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use sekisho_certs::clock;
use tokio::time::{Instant, Sleep, sleep_until};

use super::context::ConnContext;
use crate::limits::timeouts::Due;

/// Result of driving a connection.
pub(super) enum Driven<T> {
    /// The connection ended.
    Ended(T),
    /// A limit cut the connection off.
    Cut,
    /// No request has come for [`PARK_DELAY`], and none has begun.
    Idle,
}

/// Drives `connection` within the limits of its context. Calls `on_idle` where it has been
/// idle for [`PARK_DELAY`]: `Break` ends the drive, to park the connection.
///
/// The timer is only reset for a limit that comes sooner. If the limit has
/// moved away, the timer fires, finds nothing due and is set again. Hence a
/// request on a kept-alive connection does not touch it.
pub(super) async fn drive<C: Future>(
    connection: Pin<&mut C>,
    end_gracefully: impl Fn(Pin<&mut C>),
    on_idle: impl Fn(Pin<&mut C>) -> ControlFlow<()>,
    context: &ConnContext,
) -> Driven<C::Output> {
    let drain = &context.local.drain;
    // A request of HTTP/1.1 that is under way would be lost with a connection that is
    // closed between two answers. Over HTTP/2, GOAWAY says which requests count.
    let leaves = context.timeouts().is_multiplexed();
    let (mut leaving, mut draining) = (pin!(drain.leaving()), pin!(drain.begun()));
    let mut awaits_drain = false;
    let mut driver = Driver {
        connection,
        end_gracefully,
        on_idle,
        context,
        timer: pin!(sleep_until(Instant::now() + TICKET_DELAY)),
        interval: CHECK_INTERVAL.min(context.limits().body / 2),
        park: PARK_DELAY,
        ending: false,
    };
    let mut poll = |cx: &mut Context<'_>| loop {
        if let Poll::Ready(ended) = driver.connection.as_mut().poll(cx) {
            return Poll::Ready(Driven::Ended(ended));
        }
        if !awaits_drain {
            // Each keeps the task's waker, which stays the same.
            let _ = draining.as_mut().poll(cx);
            let _ = leaves.then(|| leaving.as_mut().poll(cx));
            awaits_drain = true;
        }
        if driver.winds_down() {
            continue;
        }
        context.timeouts().close_if_ended();
        let due = context.due();
        let first = driver.set_timer(due);
        if driver.timer.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        if let Some(driven) = driver.fire(due, first) {
            return Poll::Ready(driven);
        }
    };
    // A poll takes microseconds: limits and ages of milliseconds need one reading.
    poll_fn(|cx| {
        context.turn.begin();
        clock::read_once(|| poll(cx))
    })
    .await
}

/// Connection that is being driven, with the timer of its limits.
struct Driver<'a, C, E, P> {
    connection: Pin<&'a mut C>,
    end_gracefully: E,
    on_idle: P,
    context: &'a ConnContext,
    timer: Pin<&'a mut Sleep>,
    /// The longest time between two checks while the server is at work.
    interval: Duration,
    /// The time until the next check; doubles while the connection is busy.
    park: Duration,
    ending: bool,
}

impl<C: Future, E: Fn(Pin<&mut C>), P: Fn(Pin<&mut C>) -> ControlFlow<()>> Driver<'_, C, E, P> {
    /// Asks hyper once to shut down gracefully, if the server drains or leaves, or the
    /// host is gone. Returns true if it asked now: the connection must then be
    /// polled.
    fn winds_down(&mut self) -> bool {
        let timeouts = self.context.timeouts();
        let drain = &self.context.local.drain;
        let closes = drain.has_begun() || timeouts.is_winding_down();
        // A connection of HTTP/2 ends once the client knows that.
        let leaves = timeouts.is_multiplexed() && drain.is_leaving();
        if !closes && !leaves {
            return false;
        }
        if closes && !timeouts.is_in_flight() {
            timeouts.close();
        }
        // A client that has sent no request yet gets its first one answered.
        let asks = !self.ending && timeouts.has_begun();
        if asks {
            self.end();
        }
        asks
    }

    fn end(&mut self) {
        self.ending = true;
        (self.end_gracefully)(self.connection.as_mut());
    }

    /// Resets the timer if something is due sooner. Returns what comes first: a
    /// limit, or a check of the HTTP/2 streams.
    fn set_timer(&mut self, due: Option<(Instant, Due)>) -> Option<Instant> {
        let streams = self.context.timeouts().has_streams();
        let check = streams.then(|| clock::monotonic() + self.interval);
        let first = due.map(|(at, _)| at).into_iter().chain(check).min();
        if let Some(at) = first.filter(|at| *at < self.timer.deadline()) {
            self.timer.as_mut().reset(at);
        }
        first
    }

    /// Handles the timer: does what is due, and sets it again.
    fn fire(
        &mut self,
        due: Option<(Instant, Due)>,
        first: Option<Instant>,
    ) -> Option<Driven<C::Output>> {
        let timeouts = self.context.timeouts();
        timeouts.check_streams();
        let now = Instant::now();
        match due.filter(|(at, _)| *at <= now).map(|(_, due)| due) {
            Some(Due::Ask) => {
                // hyper retries the blocked write, which then measures the
                // progress.
                let asked = timeouts.ask_progress();
                self.timer.as_mut().reset(now + self.interval);
                return (!asked).then_some(Driven::Cut);
            }
            Some(Due::Drop) => return Some(Driven::Cut),
            Some(Due::Close) => {
                timeouts.close();
                self.end();
                self.timer.as_mut().reset(now + TICKET_DELAY);
            }
            None => {
                if !self.context.local.drain.has_begun()
                    && timeouts.has_been_idle_for(PARK_DELAY)
                    && (self.on_idle)(self.connection.as_mut()).is_break()
                {
                    return Some(Driven::Idle);
                }
                // A busy connection is checked less often each time, at least
                // every 5 s.
                let next = first.unwrap_or(now + self.interval);
                self.timer.as_mut().reset(next.min(now + self.park));
                self.park = CHECK_INTERVAL.min(self.park * 2);
            }
        }
        // The timer first fires after [`TICKET_DELAY`]: tickets wait no longer.
        timeouts.flush_tickets();
        None
    }
}

/// Idle time after which hyper and its two 8 KiB buffers are dropped. Longer
/// than a busy client's pauses, since hyper is made anew for the next request
/// (1 µs).
const PARK_DELAY: Duration = Duration::from_millis(100);

/// How long session tickets wait to be sent with the first answer. Most clients
/// send their request at once; others lose nothing.
const TICKET_DELAY: Duration = Duration::from_millis(20);

/// Longest interval of checks: whether an answer makes progress, and whether the
/// connection is idle and can be parked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
