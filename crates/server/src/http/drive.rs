//! Polls a connection, with one timer for all of its limits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::timeouts::{ConnTimeouts, Due, LINGER, Limits};
use crate::tls::Stream;

/// Tells the connections of a worker that the server drains.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    begun: AtomicBool,
    notify: Notify,
}

impl Drain {
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    async fn begun(&self) {
        // Made before the flag is read: no notification falls in between.
        let notified = self.notify.notified();
        if !self.begun.load(Ordering::Acquire) {
            notified.await;
        }
    }
}

/// What a connection is held to.
pub(super) struct Held<'a> {
    pub(super) timeouts: Arc<ConnTimeouts>,
    pub(super) limits: Limits,
    pub(super) drain: &'a Drain,
}

/// How far a connection was driven.
pub(super) enum Driven<T> {
    /// To its end.
    Ended(T),
    /// A limit cut it off.
    Cut,
    /// No request has come for [`PARK_DELAY`], and none is begun. Only of HTTP/1.1.
    Idle,
}

impl Held<'_> {
    /// Waits for bytes of the client without hyper. False if a limit or the
    /// drain came first; then the stream is closed.
    pub(super) async fn is_asked_again(&self, stream: &mut Stream) -> bool {
        let due = self.timeouts.due(&self.limits);
        let limit = async {
            match due {
                Some((at, _)) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = poll_fn(|cx| stream.poll_readable(cx)) => return true,
            () = limit => {}
            // A client in front of its first request gets it answered.
            () = self.drain.begun() => if !self.timeouts.has_begun() {
                return true;
            }
        }
        self.timeouts.close();
        // A client that does not take close_notify does not get it.
        let _ = timeout(LINGER, poll_fn(|cx| stream.poll_close(cx))).await;
        false
    }
}

/// Drives `connection`.
///
/// The timer is set back only for a limit that comes sooner; where the limit
/// has moved away since, it fires, finds nothing and is set again. A request
/// on a kept-alive connection so leaves it alone.
pub(super) async fn drive<C: Future>(
    connection: Pin<&mut C>,
    end_gracefully: impl Fn(Pin<&mut C>),
    held: &Held<'_>,
) -> Driven<C::Output> {
    let mut draining = pin!(held.drain.begun());
    let mut driver = Driver {
        connection,
        end_gracefully,
        held,
        timer: pin!(sleep_until(Instant::now() + TICKET_DELAY)),
        interval: CHECK_INTERVAL.min(held.limits.body / 2),
        park: PARK_DELAY,
        drained: false,
        ending: false,
    };
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = driver.connection.as_mut().poll(cx) {
                return Poll::Ready(Driven::Ended(ended));
            }
            driver.drained = driver.drained || draining.as_mut().poll(cx).is_ready();
            if driver.winds_down() {
                continue;
            }
            let due = held.timeouts.due(&held.limits);
            let first = driver.set_timer(due);
            if driver.timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if let Some(driven) = driver.fire(due, first) {
                return Poll::Ready(driven);
            }
        }
    })
    .await
}

/// A connection on its way, with the timer of its limits.
struct Driver<'a, C, E> {
    connection: Pin<&'a mut C>,
    end_gracefully: E,
    held: &'a Held<'a>,
    timer: Pin<&'a mut Sleep>,
    /// The longest time between two checks of a step that is ours.
    interval: Duration,
    /// The time until the next check; doubles while the connection is busy.
    park: Duration,
    drained: bool,
    ending: bool,
}

impl<C: Future, E: Fn(Pin<&mut C>)> Driver<'_, C, E> {
    /// Asks hyper once to end, if the server drains or the host is gone. True
    /// if it was asked, so that the connection is to be polled.
    fn winds_down(&mut self) -> bool {
        let timeouts = &self.held.timeouts;
        if !self.drained && !timeouts.is_winding_down() {
            return false;
        }
        timeouts.close_if_idle();
        // A client in front of its first request gets it answered.
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

    /// Sets the timer back if something comes sooner. Returns what comes first:
    /// a limit, or a check of the streams of HTTP/2.
    fn set_timer(&mut self, due: Option<(Instant, Due)>) -> Option<Instant> {
        let streams = self.held.timeouts.has_streams();
        let check = streams.then(|| Instant::now() + self.interval);
        let first = due.map(|(at, _)| at).into_iter().chain(check).min();
        if let Some(at) = first.filter(|at| *at < self.timer.deadline()) {
            self.timer.as_mut().reset(at);
        }
        first
    }

    /// Does what is due when the timer has fired, and sets it again.
    fn fire(
        &mut self,
        due: Option<(Instant, Due)>,
        first: Option<Instant>,
    ) -> Option<Driven<C::Output>> {
        let timeouts = &self.held.timeouts;
        timeouts.check_streams();
        let now = Instant::now();
        match due.filter(|(at, _)| *at <= now).map(|(_, due)| due) {
            Some(Due::Ask) => {
                // A write that is blocked is tried again, and answers.
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
            None if !self.drained && timeouts.has_been_idle_for(PARK_DELAY) => {
                return Some(Driven::Idle);
            }
            None => {
                // A busy connection is checked ever less often.
                let next = first.unwrap_or(now + self.interval);
                self.timer.as_mut().reset(next.min(now + self.park));
                self.park = CHECK_INTERVAL.min(self.park * 2);
            }
        }
        // The first time it fires, tickets have waited long enough.
        timeouts.be_impatient();
        None
    }
}

/// How long no request has come when hyper is given up with its two buffers of
/// 8 KiB: longer than a busy client's pauses, since it is made anew for the
/// next one (1 µs).
const PARK_DELAY: Duration = Duration::from_millis(100);

/// How long session tickets wait for the first answer to ride with. Clients
/// send their request at once; one that does not misses nothing.
const TICKET_DELAY: Duration = Duration::from_millis(20);

/// How often a connection is looked at whose next step is ours.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
